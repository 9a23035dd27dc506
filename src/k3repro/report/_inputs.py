"""What a build depends on, as one digest: a second build with the same inputs has nothing to do."""

from __future__ import annotations

import sys
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from k3repro.report._files import digest_of_files, file_sha256
from k3repro.report._markup import sha256
from k3repro.report._site import Site
from k3repro.store import SIGNERS

__all__ = ["inputs_digest"]

_TOOLS = (
    "altair",
    "vl-convert-python",
    "mkdocs",
    "mkdocs-material",
    "pymdown-extensions",
    "markdown",
    "duckdb",
    "jinja2",
)


def inputs_digest(site: Site, store: Any, *, sql: bool = False) -> str:
    """Templates, queries, figures, assets, executed notebooks, seals, ledger heads, our code, the tools'
    versions.
    """
    entries = {f"site/{name}": digest for name, digest in _folder(site.root, {"build", ".generated"}).items()}
    entries |= {f"notebooks/{stage}": file_sha256(path) for stage, path in site.notebooks().items()}
    entries |= {f"code/{name}": digest for name, digest in _code().items()}
    entries |= {f"tool/{name}": _version(name) for name in _TOOLS}
    entries |= {f"seal/{artifact.seal}": "" for artifact in store.artifacts()}
    entries |= {f"head/{head}": "" for head in store.heads()}
    entries |= {f"store/{name}": digest for name, digest in _folder(store.root / "signatures", set()).items()}
    signers = store.root / SIGNERS
    entries["signers"] = file_sha256(signers) if signers.is_file() else ""
    entries["console"] = str(sql)
    entries["python"] = sys.version.split()[0]
    return sha256(digest_of_files(entries))


def _folder(root: Path, skip: set[str]) -> dict[str, str]:
    if not root.is_dir():
        return {}
    found = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): file_sha256(path)
        for name, path in found.items()
        if name.parts[0] not in skip and "__pycache__" not in name.parts
    }


def _code() -> dict[str, str]:
    """The packages that decide what a page looks like."""
    code: dict[str, str] = {}
    for package in ("k3repro.report", "k3repro.units", "k3repro.spec"):
        folder = Path(str(resources.files(package)))
        code |= {f"{package}/{name}": digest for name, digest in _folder(folder, set()).items()}
    return code


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
