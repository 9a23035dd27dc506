"""Every test here needs real software and is run by `make test-real`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_tools import Serve


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """1P1D in WRITE mode behind a real router, two lanes a pool."""
    made = Serve(tmp_path, nodes=1, dp=2)
    try:
        made.up()
        yield made
    finally:
        made.down()
