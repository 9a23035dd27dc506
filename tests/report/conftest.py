"""The small site of these tests, as fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_site import fill, write_site

from k3repro.report import Site
from k3repro.store import Store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The sealed artifacts of these tests."""
    store = Store(tmp_path_factory.mktemp("project") / "artifacts")
    fill(store)
    return store


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A fresh site folder."""
    root = tmp_path / "project" / "site"
    root.mkdir(parents=True)
    return write_site(root)


@pytest.fixture(scope="session")
def built(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site built once for the whole session; copy before changing."""
    from k3repro.report import build_site

    root = tmp_path_factory.mktemp("built") / "site"
    root.mkdir()
    return build_site(write_site(root), store).site
