"""Stores in a temporary folder, and targets that lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lies import Lie, LyingTarget

from k3repro.client import open_target
from k3repro.probes import _run
from k3repro.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts")


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Lie], None]:
    def install(lie: Lie) -> None:
        monkeypatch.setattr(_run, "open_target", lambda *a, **k: LyingTarget(open_target(*a, **k), lie))

    return install
