"""Until _ladder has moved: see k3repro.printed."""

from k3repro.printed import claimed_span as claimed_span
