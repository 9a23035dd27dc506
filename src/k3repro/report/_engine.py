"""DuckDB-WASM for the console page: from npm at build time, pinned, cached, never in git.

`assets/duckdb-wasm.json` pins the packages (npm's own integrity) and the files made of them (SHA-256), so
that an audit knows the files without a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from k3repro.errors import MachineError, MissingExtra
from k3repro.report._markup import sha256

__all__ = ["FOLDER", "engine_digests", "engine_files", "fetch_package"]

FOLDER = "assets/duckdb"


@cache
def _pins() -> dict[str, Any]:
    text = resources.files("k3repro.report").joinpath("assets/duckdb-wasm.json").read_text("utf-8")
    pins: dict[str, Any] = json.loads(text)
    return pins


def engine_digests() -> frozenset[str]:
    """SHA-256 of every file of the engine that a site may hold."""
    return frozenset(_pins()["files"].values())


def engine_files() -> dict[str, bytes]:
    """The engine's files by their path in the site.

    Raises:
        MissingExtra: no npm. K3Error: no network and nothing cached, or other bytes than those pinned.
    """
    files: dict[str, bytes] = {}
    for package in _pins()["packages"]:
        archive = fetch_package(package["name"], package["version"], package["integrity"])
        with tarfile.open(archive) as tar:
            for member, name in package["files"].items():
                handle = tar.extractfile(f"package/{member}")
                assert handle is not None
                files[f"{FOLDER}/{name}"] = _as_script(name, handle.read())
    for path, data in files.items():
        if sha256(data) != _pins()["files"][path.rsplit("/", 1)[-1]]:
            raise MachineError(
                f"{path} is not what is pinned", fix="Update assets/duckdb-wasm.json on purpose."
            )
    return files


def _as_script(name: str, data: bytes) -> bytes:
    """Scripts without source maps; the CommonJS module wrapped for a plain script element."""
    if not name.endswith(".js"):
        return data
    text = "\n".join(
        line for line in data.decode().splitlines() if not line.startswith("//# sourceMappingURL")
    )
    if name == "duckdb.js":
        text = (
            "(()=>{const module={exports:{}},exports=module.exports,require=()=>globalThis.Arrow;\n"
            f"{text}\nglobalThis.k3Duckdb=module.exports;}})();"
        )
    return (text + "\n").encode()


def fetch_package(name: str, version: str, integrity: str) -> Path:
    """The archive of an npm package, from the cache or through npm, proven against npm's integrity text."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "k3repro" / "npm"
    path = root / f"{name.replace('/', '-').lstrip('@')}-{version}.tgz"
    if path.is_file() and _integrity(path) == integrity:
        return path
    if shutil.which("npm") is None:
        raise MissingExtra(
            "the console needs npm to fetch its engine", fix="Install npm, or build without --sql."
        )
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        done = subprocess.run(
            ["npm", "pack", f"{name}@{version}", "--silent", "--pack-destination", folder],
            cwd=folder, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        archives = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            first = (done.stderr.strip().splitlines() or ["npm said nothing"])[0]
            raise MachineError(f"npm cannot fetch {name}: {first}", fix="Try again with a network.")
        if _integrity(archives[0]) != integrity:
            raise MachineError(
                f"{name}@{version} is not what is pinned", fix="Do not use it; ask who published it."
            )
        archives[0].replace(path)
    return path


def _integrity(path: Path) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
