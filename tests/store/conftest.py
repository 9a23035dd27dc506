"""The fixture that the store's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3repro.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "artifacts")
