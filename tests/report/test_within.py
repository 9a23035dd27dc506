"""An audit ends: within its time and its memory, with all that it started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
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


ASK = "import sys, pathlib; from k3repro.report import audit_within; audit_within(pathlib.Path(sys.argv[1]))"


def runs(pid: int) -> bool:
    """Whether a process is there, and not only its entry in the table."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/cmdline").is_file(), reason="looks into /proc")
def test_an_audit_ends_with_whoever_asked_for_it(built: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "site"))
    page, words = folder / "wall-law.html", "one hundred and " * 200_000
    page.write_text(page.read_text("utf-8").replace("</article>", f"<p>{words}</p></article>"), "utf-8")
    asking = subprocess.Popen([sys.executable, "-c", ASK, folder])
    started = set[int]()
    while len(started) < 3 and asking.poll() is None:  # itself, the audit, one of its readers
        started |= {*spent(asking.pid).pids}
        time.sleep(0.05)
    asking.kill()
    asking.wait()
    assert len(started) >= 3
    until = time.monotonic() + 600
    while any(map(runs, started)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not [pid for pid in started if runs(pid)]


def test_a_process_that_ends_meanwhile_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that come and go, some end between being listed and being read."""

    def gone(path: Path, *_: object, **__: object) -> str:
        raise ProcessLookupError(3, "No such process", str(path))

    for name in ("read_text", "stat"):
        monkeypatch.setattr(Path, name, gone)
    monkeypatch.setattr("k3repro.report._within._others", lambda: pytest.fail("looks into /proc"))
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    assert spent(os.getpid()).pids == ()


def test_what_takes_too_much_memory_is_ended(built: Path) -> None:
    (finding,) = audit_within(built, most_bytes=50 * 2**20, alone=True).findings
    assert finding.code == "bounds" and "more than 50 MiB of memory" in finding.what


def test_what_is_no_site_is_the_same_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no built site"):
        audit_within(tmp_path)
