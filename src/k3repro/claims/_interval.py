"""Until reading, _ladder, _totals and _contradictions have moved: see k3repro.printed."""

from k3repro.printed import Span as Span
