"""What users ask of a serve, in one description that probes, twin and sizing share (no server is needed).

``Workload(parse_lengths("512..2048"), parse_lengths(256), OpenLoop(2.5)).sessions(100, seed=7)``
"""

from k3repro.workload._arrivals import PROCESSES, ClosedLoop, OpenLoop
from k3repro.workload._lengths import Lengths, parse_lengths
from k3repro.workload._profiles import generate, profile, profile_names
from k3repro.workload._readers import estimate_tokens, read_corpus
from k3repro.workload._sessions import Corpus, Session, Turn
from k3repro.workload._workload import Workload

__all__ = [
    "PROCESSES",
    "ClosedLoop",
    "Corpus",
    "Lengths",
    "OpenLoop",
    "Session",
    "Turn",
    "Workload",
    "estimate_tokens",
    "generate",
    "parse_lengths",
    "profile",
    "profile_names",
    "read_corpus",
]
