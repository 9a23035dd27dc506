"""Sizing: the cheapest deployment that keeps a latency goal for a workload, simulated on the twin."""

from k3repro.sizing._candidate import Candidate, Settings, published, space
from k3repro.sizing._goals import Goal, parse_goal
from k3repro.sizing._search import Found, pareto, search
from k3repro.sizing._trial import Plan, Trial, plan_of, try_candidate

__all__ = [
    "Candidate",
    "Found",
    "Goal",
    "Plan",
    "Settings",
    "Trial",
    "pareto",
    "parse_goal",
    "plan_of",
    "published",
    "search",
    "space",
    "try_candidate",
]
