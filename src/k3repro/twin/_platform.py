"""Platforms of the twin as data: integer constants with a source each, and overrides from the target
string.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from k3repro.errors import UsageError

__all__ = ["Platform", "platform", "platform_names", "platform_sources"]


@dataclass(frozen=True, slots=True)
class Platform:
    """Constants of one simulated cluster. `*_ns` are integer nanoseconds; token fields count tokens.

    `step_ns + step_sequence_ns * (running - 1)` is the cost of one decode step of the whole pool (the expert
    all-to-all keeps its lanes in lockstep); `prefill_step_ns + prefill_token_ns * tokens` that of one
    prefill step.
    """

    name: str
    model: str
    max_model_len: int
    lanes: int
    max_num_seqs: int
    prefill_lane_tokens: int
    c0_ns: int
    c0_prompt_tokens: int
    step_ns: int
    step_sequence_ns: int
    prefill_step_ns: int
    prefill_token_ns: int
    gather_ns: int
    jitter_ppm: int

    @property
    def handoff_ns(self) -> int:
        """Prefill end to decode admission: what is left of C0 once gathering and one prefill step are taken
        off.
        """
        prefill = self.prefill_step_ns + self.prefill_token_ns * self.c0_prompt_tokens
        return self.c0_ns - self.gather_ns - prefill

    @property
    def slots(self) -> int:
        """In-flight places of the decode pool."""
        return self.lanes * self.max_num_seqs

    def with_overrides(self, overrides: Mapping[str, str]) -> Platform:
        """A copy with fields replaced by text from a target string; UsageError names the bad one."""
        return _checked(replace(self, **{name: _override(name, text) for name, text in overrides.items()}))


_POSITIVE = ("max_model_len", "lanes", "max_num_seqs", "prefill_lane_tokens", "step_ns")


def _override(name: str, text: str) -> Any:
    known = sorted(field.name for field in fields(Platform) if field.name != "name")
    if name not in known:
        raise UsageError(
            f"the twin has no setting {name!r}", where="target", fix=f"known: seed, {', '.join(known)}"
        )
    if name == "model":
        return text
    try:
        return int(text.replace("_", ""))
    except ValueError:
        raise UsageError(
            f"{name} is {text!r}, not a whole number", where="target", fix=f"for example {name}=8"
        ) from None


def _checked(value: Platform) -> Platform:
    for name in _POSITIVE:
        if getattr(value, name) < 1:
            raise UsageError(f"{name} must be at least 1", where=f"twin:{value.name}")
    for field in fields(value):
        if field.name not in ("name", "model") and getattr(value, field.name) < 0:
            raise UsageError(f"{field.name} must not be negative", where=f"twin:{value.name}")
    if value.handoff_ns < 0:
        raise UsageError(
            "c0_ns is smaller than gathering plus one prefill step",
            where=f"twin:{value.name}",
            fix="raise c0_ns, or lower prefill_step_ns or prefill_token_ns",
        )
    if value.jitter_ppm >= 1_000_000:
        raise UsageError("jitter_ppm must be below 1000000", where=f"twin:{value.name}")
    return value


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads(files(__package__).joinpath("platforms.toml").read_text(encoding="utf-8"))


def platform_names() -> list[str]:
    """Names that `twin:NAME` accepts."""
    return sorted(_table())


def platform(name: str) -> Platform:
    """The platform called `name`; UsageError lists the known ones."""
    if name not in _table():
        raise UsageError(
            f"no simulated platform {name!r}", where="target", fix=f"known: {', '.join(platform_names())}"
        )
    return _checked(Platform(name=name, **{key: entry["value"] for key, entry in _table()[name].items()}))


def platform_sources(name: str) -> dict[str, str]:
    """Where each constant of a platform comes from."""
    platform(name)
    return {key: str(entry["source"]) for key, entry in _table()[name].items()}
