"""Laws and calculators: what fits, how many, how long, what binds. A law is data."""

from k3repro.capacity import wall
from k3repro.capacity._law import Law, law_of
from k3repro.capacity._tree import Tree, evaluate, formula_text, variables_of

__all__ = [
    "Law",
    "Tree",
    "evaluate",
    "formula_text",
    "law_of",
    "variables_of",
    "wall",
]
