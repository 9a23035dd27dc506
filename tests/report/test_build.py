"""`site build`: what it makes, when it skips, and that its bytes depend on artifacts only."""

from __future__ import annotations

from pathlib import Path

from k3repro.report import Site, build_site
from k3repro.store import Store


def test_a_site_with_values_tables_and_figures_passes(built: Path) -> None:
    page = (built / "wall-law.html").read_text("utf-8")
    assert '<data class="k3-value"' in page and "<caption>" in page and 'class="k3-spec"' in page
    assert (built / "queries" / "sweep.sql").is_file() and (built / "data" / "sweep.csv").is_file()
    assert list((built / "artifacts").rglob("*.duckdb")) and list(
        (built / "artifacts" / "ledger").glob("*.json")
    )


def test_a_second_build_with_the_same_inputs_does_nothing(site: Site, store: Store) -> None:
    assert not build_site(site, store).skipped
    assert build_site(site, store).skipped
    (site.build / "index.html").write_text("changed by hand")
    assert not build_site(site, store).skipped
