"""What the tests of the check share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k3repro.check import Checked, check_document, read_bytes

Check = Callable[..., Checked]


@pytest.fixture
def check() -> Check:
    """Check a text as a file of the given suffix."""

    def run(text: str, suffix: str = ".md") -> Checked:
        return check_document(read_bytes(text.encode(), f"post{suffix}", suffix))

    return run
