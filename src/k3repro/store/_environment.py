"""What an artifact says about the machine and the code that made it, without saying whose machine it was."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from k3repro import __version__

# Only these variables enter an artifact; everything else in the environment may be a secret.
ALLOWED_VARIABLES = ("LANG", "LC_ALL", "PYTHONHASHSEED", "TZ")
ALLOWED_PREFIXES = ("VLLM_", "NCCL_", "RCCL_", "HIP_VISIBLE", "ROCR_VISIBLE", "UCX_", "OMP_")
_PACKAGES = ("duckdb", "httptools", "numpy")


def environment() -> dict[str, Any]:
    """Python, packages, operating system, commit (and whether the tree was dirty), allowed variables."""
    return {**_fixed(), "variables": allowed_variables(dict(os.environ))}


def allowed_variables(variables: dict[str, str]) -> dict[str, str]:
    """The variables on the allow-list, without any whose name smells of a secret."""
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    return {
        name: value
        for name, value in sorted(variables.items())
        if (name in ALLOWED_VARIABLES or name.startswith(ALLOWED_PREFIXES))
        and not any(word in name for word in secret)
    }


@cache
def _fixed() -> dict[str, Any]:
    return {
        "k3repro": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "commit": commit_of(Path(__file__).parents[1]),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def commit_of(folder: Path) -> dict[str, Any]:
    """The commit of the checkout that `folder` stands in; dirty when what is in it differs.

    What travelled without its checkout is told by ``K3REPRO_COMMIT``; `dirty` is then unknown.
    """
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return {"id": os.environ.get("K3REPRO_COMMIT", ""), "dirty": None}
    return {"id": head.strip(), "dirty": bool(_git(folder, "status", "--porcelain", "--", str(folder)))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        result = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout if result.returncode == 0 else None
