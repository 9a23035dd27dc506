"""Sizing: the cheapest deployment that keeps a latency goal for a workload, simulated on the twin."""

from k3repro.sizing._answer import MOST_NODES, Answer, answer, checked_users, fewest, surest
from k3repro.sizing._candidate import Candidate, Settings, published, space
from k3repro.sizing._fidelity import Band, Fidelity, Unknown
from k3repro.sizing._goals import METRICS, Goal, parse_goal
from k3repro.sizing._nodes import NodeAnswer, size_nodes
from k3repro.sizing._search import Found, pareto, search
from k3repro.sizing._trial import PERCENTILES, Plan, Trial, held, plan_of, try_candidate
from k3repro.sizing._verdict import VERDICTS, Judged

__all__ = [
    "METRICS",
    "MOST_NODES",
    "PERCENTILES",
    "VERDICTS",
    "Answer",
    "Band",
    "Candidate",
    "Fidelity",
    "Found",
    "Goal",
    "Judged",
    "NodeAnswer",
    "Plan",
    "Settings",
    "Trial",
    "Unknown",
    "answer",
    "checked_users",
    "fewest",
    "held",
    "pareto",
    "parse_goal",
    "plan_of",
    "published",
    "search",
    "size_nodes",
    "space",
    "surest",
    "try_candidate",
]
