"""The twin: a simulated 2P2D cluster, one discrete-event core behind a virtual and an HTTP driver."""

from k3repro.twin._cluster import Cluster
from k3repro.twin._core import Core, Flight
from k3repro.twin._faults import DEFECTS, Fault
from k3repro.twin._http import HttpDriver, serve_http
from k3repro.twin._named import calibrated, platform, platform_names, platform_sources
from k3repro.twin._needle import NEEDLE, QUESTION, UNKNOWN_ANSWER, needle_question, needle_sentence
from k3repro.twin._platform import Platform, paging
from k3repro.twin._virtual import VirtualDriver

__all__ = [
    "DEFECTS",
    "NEEDLE",
    "QUESTION",
    "UNKNOWN_ANSWER",
    "Cluster",
    "Core",
    "Fault",
    "Flight",
    "HttpDriver",
    "Platform",
    "VirtualDriver",
    "calibrated",
    "needle_question",
    "needle_sentence",
    "paging",
    "platform",
    "platform_names",
    "platform_sources",
    "serve_http",
]
