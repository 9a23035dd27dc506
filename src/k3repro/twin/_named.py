"""Simulated platforms by name: the clusters of `platforms.toml`, and single nodes from their specs."""

from __future__ import annotations

from functools import cache
from typing import Any

from k3repro.errors import UsageError
from k3repro.store import Artifact
from k3repro.toml import shipped_toml
from k3repro.twin._platform import Platform, checked
from k3repro.twin.single import single_node, single_sources

__all__ = ["calibrated", "platform", "platform_names", "platform_sources"]


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    return shipped_toml("k3repro.twin", "platforms.toml")


def platform_names() -> list[str]:
    """Names that `twin:NAME` accepts."""
    return sorted(_table())


def platform(name: str) -> Platform:
    """The platform called `name`, or the single node `PLATFORM-1n/MODEL`.

    Raises:
        UsageError: no such platform; the message lists the known ones.
    """
    if "/" in name:
        return single_node(name)
    if name not in _table():
        raise UsageError(
            f"no simulated platform {name!r}", where="target",
            fix=f"known: {', '.join(platform_names())}; one node: mi325x-1n/MODEL",
        )  # fmt: skip
    return checked(Platform(name=name, **{key: entry["value"] for key, entry in _table()[name].items()}))


def platform_sources(name: str) -> dict[str, str]:
    """Where each constant of a platform comes from; switches (`readback`, `defect`) have no source."""
    platform(name)
    if "/" in name:
        return single_sources(name)
    return {key: str(entry["source"]) for key, entry in _table()[name].items()}


def calibrated(artifact: Artifact, name: str) -> Platform:
    """The platform with the constants of a calibration, without jitter."""
    rows = {
        row["constant"]: str(row["value"]) for row in artifact.rows("constants") if row["platform"] == name
    }
    return platform(name).with_overrides({**rows, "jitter_ppm": "0"})
