"""Laws: what fits, how many, how long, what binds, what it costs. A law is data."""

from k3repro.capacity import wall
from k3repro.capacity._blocks import BlockLaw, block_law, block_law_of
from k3repro.capacity._caches import CacheLayer, cache_layers
from k3repro.capacity._cost import MOST_SECONDS, cost
from k3repro.capacity._discriminate import Rung, discriminating_rungs
from k3repro.capacity._economics import cost_laws, floor_law, reserve, reserve_law
from k3repro.capacity._engine import Engine, engine_of, parse_version
from k3repro.capacity._handoff import Handoff, handoff, handoff_law
from k3repro.capacity._knee import KNEE_GAIN, Knee, find_knee, knee
from k3repro.capacity._law import Law, law_of
from k3repro.capacity._line import LineFit, fit_line
from k3repro.capacity._nmax import NMax, n_max
from k3repro.capacity._pool import Pool, at_tp, first_that_starts, left_pool, refusals
from k3repro.capacity._request import Footprint, fit_footprint, pool_law, slot_limit, state_bytes, token_bytes
from k3repro.capacity._roofline import ROOFLINES, Serving, bound_law, serving_of
from k3repro.capacity._startup import StartupCheck, blocks_of_gib, check_startup
from k3repro.capacity._throughput import Throughput, compare, rank
from k3repro.capacity._tree import Tree, evaluate, formula_text, variables_of

__all__ = [
    "KNEE_GAIN",
    "MOST_SECONDS",
    "ROOFLINES",
    "BlockLaw",
    "CacheLayer",
    "Engine",
    "Footprint",
    "Handoff",
    "Knee",
    "Law",
    "LineFit",
    "NMax",
    "Pool",
    "Rung",
    "Serving",
    "StartupCheck",
    "Throughput",
    "Tree",
    "at_tp",
    "block_law",
    "block_law_of",
    "blocks_of_gib",
    "bound_law",
    "cache_layers",
    "check_startup",
    "compare",
    "cost",
    "cost_laws",
    "discriminating_rungs",
    "engine_of",
    "evaluate",
    "find_knee",
    "first_that_starts",
    "fit_footprint",
    "fit_line",
    "floor_law",
    "formula_text",
    "handoff",
    "handoff_law",
    "knee",
    "law_of",
    "left_pool",
    "n_max",
    "parse_version",
    "pool_law",
    "rank",
    "refusals",
    "reserve",
    "reserve_law",
    "serving_of",
    "slot_limit",
    "state_bytes",
    "token_bytes",
    "variables_of",
    "wall",
]
