"""The same artifacts give the same site bytes, whatever the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from small_site import write_site

from k3repro.report._files import tree_digests
from k3repro.store import Store

SCRIPT = """
import os, sys
os.umask(int(sys.argv[3], 8))
from pathlib import Path
from k3repro.report import Site, build_site
from k3repro.store import Store
build_site(Site(Path(sys.argv[1])), Store(sys.argv[2]))
"""


def build_elsewhere(root: Path, store: Store, umask: str, **environment: str) -> dict[str, str]:
    (root / "site").mkdir(parents=True)
    site = write_site(root / "site")
    command = [sys.executable, "-c", SCRIPT, str(site.root), str(store.root), umask]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    modes = {path.stat().st_mode & 0o777 for path in site.build.rglob("*") if path.is_file()}
    assert modes == {0o644}
    return tree_digests(site.build)


def test_bytes_do_not_depend_on_zone_locale_seed_path_umask_or_date(store: Store, tmp_path: Path) -> None:
    first = build_elsewhere(tmp_path / "a", store, "022", TZ="UTC", PYTHONHASHSEED="1", LC_ALL="C.UTF-8")
    second = build_elsewhere(
        tmp_path / "another place" / "b", store, "077",
        TZ="Asia/Tokyo", PYTHONHASHSEED="2", LC_ALL="C", LANG="tr_TR.UTF-8", SOURCE_DATE_EPOCH="1900000000",
    )  # fmt: skip
    assert first == second
    assert not [name for name in first if "sitemap" in name]
