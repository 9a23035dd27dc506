"""Probes: procedures on a serve, each ending in one sealed artifact (docs/design.md)."""

from k3repro.probes._run import PROBES, estimate_probe, parameters_of, passing_gate, probe_named, run_probe
from k3repro.probes.fits import fit_wall_law
from k3repro.probes.plan import Rung
from k3repro.probes.progress import Bar, Lines, Progress, Silent, choose

__all__ = [
    "PROBES",
    "Bar",
    "Lines",
    "Progress",
    "Rung",
    "Silent",
    "choose",
    "estimate_probe",
    "fit_wall_law",
    "parameters_of",
    "passing_gate",
    "probe_named",
    "run_probe",
]
