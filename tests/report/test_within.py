"""An audit ends: within its time and its memory, with all that it started."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from k3repro.errors import InputError
from k3repro.report import audit_site, audit_within
from k3repro.report._within import spent

pytestmark = pytest.mark.slow


def test_an_honest_site_is_audited_to_the_end(built: Path) -> None:
    bounded, plain = audit_within(built, alone=True), audit_site(built, alone=True)
    assert bounded.as_dict() == plain.as_dict() and bounded.ok


def test_what_takes_too_long_is_ended(built: Path, tmp_path: Path) -> None:
    """A paragraph whose every word is read with all others: nobody thought of it but this bound."""
    folder = Path(shutil.copytree(built, tmp_path / "site"))
    before = {*spent(os.getpid()).pids}
    page, words = folder / "wall-law.html", "one hundred and " * 200_000
    page.write_text(page.read_text("utf-8").replace("</article>", f"<p>{words}</p></article>"), "utf-8")
    (finding,) = audit_within(folder, most_s=3.0, alone=True).findings
    assert (finding.code, finding.where) == ("bounds", "site") and "more than 3 s" in finding.what
    assert {*spent(os.getpid()).pids} <= before  # nothing of the audit is left


def test_what_takes_too_much_memory_is_ended(built: Path) -> None:
    (finding,) = audit_within(built, most_bytes=50 * 2**20, alone=True).findings
    assert finding.code == "bounds" and "more than 50 MiB of memory" in finding.what


def test_what_is_no_site_is_the_same_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no built site"):
        audit_within(tmp_path)
