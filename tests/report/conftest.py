"""The small site of these tests, as fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import Forking
from small_site import fill, write_site

from k3repro.report import Site, _mkdocs
from k3repro.store import Store, _untrusted


@pytest.fixture(scope="session", autouse=True)
def forking() -> Iterator[None]:
    """Builds and audits of these tests fork their processes; see `forked.py`."""
    with pytest.MonkeyPatch.context() as patch:
        forking = Forking()
        for module in (_mkdocs, _untrusted):
            patch.setattr(module, "subprocess", forking)
        yield
        forking.close()


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
