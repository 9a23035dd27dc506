"""Probes: procedures on a serve, each ending in one sealed artifact (docs/design.md)."""

from k3repro.probes._bounds import TOKENS
from k3repro.probes._judgement import compare_serves
from k3repro.probes._registered import PROBES, probe_named
from k3repro.probes._run import estimate_probe, parameters_of, passing_gate, run_probe, who_answers
from k3repro.probes.adopt import adopt, adopted
from k3repro.probes.advisor import LEAST_THOUGHT, Next, after_gate, runs_text, what_next
from k3repro.probes.confirmation import confirm_limits, limits
from k3repro.probes.engine_start import seal_start, startup_law
from k3repro.probes.fits import fit_wall_law
from k3repro.probes.look import Look, look
from k3repro.probes.pairs import PAIRED, run_pair
from k3repro.probes.plan import Rung
from k3repro.probes.pricing import estimate_text
from k3repro.probes.progress import Bar, Lines, Progress, Silent, choose
from k3repro.probes.reasons import told_once
from k3repro.probes.results import parse_slo, results, results_text

__all__ = [
    "LEAST_THOUGHT",
    "PAIRED",
    "PROBES",
    "TOKENS",
    "Bar",
    "Lines",
    "Look",
    "Next",
    "Progress",
    "Rung",
    "Silent",
    "adopt",
    "adopted",
    "after_gate",
    "choose",
    "compare_serves",
    "confirm_limits",
    "estimate_probe",
    "estimate_text",
    "fit_wall_law",
    "limits",
    "look",
    "parameters_of",
    "parse_slo",
    "passing_gate",
    "probe_named",
    "results",
    "results_text",
    "run_pair",
    "run_probe",
    "runs_text",
    "seal_start",
    "startup_law",
    "told_once",
    "what_next",
    "who_answers",
]
