"""What a build depends on, as one digest: a second build with the same inputs has nothing to do."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from k3repro.report._files import digest_of_files, file_sha256
from k3repro.report._markup import sha256
from k3repro.report._site import Site
from k3repro.store import SIGNERS

__all__ = ["Inputs", "inputs_of"]

_TOOLS = (
    "altair",
    "vl-convert-python",
    "mkdocs",
    "mkdocs-material",
    "pymdown-extensions",
    "markdown",
    "duckdb",
    "jinja2",
    "tinycss2",
)


# What one page alone is made from: its own text, and the queries and figures that it names.
_OF_PAGES = ("site/pages/", "site/queries/", "site/figures/", "notebooks/")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Digests of all that a build depends on, and of the part that every page depends on."""

    whole: str
    shared: str


def inputs_of(site: Site, store: Any, *, sql: bool = False) -> Inputs:
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
    shared = {name: digest for name, digest in entries.items() if not name.startswith(_OF_PAGES)}
    return Inputs(sha256(digest_of_files(entries)), sha256(digest_of_files(shared)))


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
    root = Path(str(resources.files("k3repro")))
    code = {"relation": file_sha256(root / "relation.py")}
    for package in ("report", "store", "units", "spec"):
        code |= {f"{package}/{name}": digest for name, digest in _folder(root / package, set()).items()}
    return code


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
