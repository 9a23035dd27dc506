"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["json_option", "store_option"]


def store_option(command: Any) -> Any:
    """The option that names the store."""
    return click.option(
        "--artifacts", "--store", "root", type=click.Path(path_type=Path), metavar="DIR",
        help="Folder of the artifacts [default: $K3REPRO_ARTIFACTS, else the nearest artifacts/].",
    )(command)  # fmt: skip


def json_option(command: Any) -> Any:
    """The option that prints JSON."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
