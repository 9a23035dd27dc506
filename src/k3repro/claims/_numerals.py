"""Until _ladder has moved: see k3repro.printed."""

from k3repro.printed import MULTIPLIERS as MULTIPLIERS
from k3repro.printed import decimals_of as decimals_of
