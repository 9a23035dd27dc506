"""Agentic replay: corpora of multi-turn sessions, their pre-gate, the replay, and the output of other
harnesses.
"""

from k3repro.probes.agentic.corpus import Corpus, Session, Turn, generate, profile, profile_names
from k3repro.probes.agentic.gate import AXES, Axis, pre_gate
from k3repro.probes.agentic.harness import Harness, command, drive, ingest
from k3repro.probes.agentic.readers import read_corpus

__all__ = [
    "AXES",
    "Axis",
    "Corpus",
    "Harness",
    "Session",
    "Turn",
    "command",
    "drive",
    "generate",
    "ingest",
    "pre_gate",
    "profile",
    "profile_names",
    "read_corpus",
]
