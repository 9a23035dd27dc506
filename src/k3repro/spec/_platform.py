"""A platform: one GPU model and its node, with a source for every field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from k3repro.spec._document import Document, all_documents, load_document, made


@dataclass(frozen=True, slots=True)
class Platform:
    """A GPU model. Sizes in bytes, rates per second, power in watts, prices in US dollars per GPU-hour."""

    name: str
    title: str
    full_title: str
    vendor: str
    arch: str
    generation: str
    hbm_bytes: int
    nominal_hbm_gb: int
    gpus_per_node: int
    hbm_bytes_per_s: float
    bf16_flops: float
    fp8_flops: float
    native_mxfp4: bool
    fp8_encoding: str
    board_watts: int
    fabric: str | None = None
    price_per_gpu_hour_low: float | None = None
    price_per_gpu_hour_high: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)


def platform_of(document: Document) -> Platform:
    """Build a platform from a parsed file.

    Raises:
        SpecError: a missing or unknown field.
    """
    fields = {**document.head_fields(), **document.section("platform")}
    return made(
        Platform,
        fields | {"sources": document.sources, "unknown": document.unknown},
        document.where,
        "platform",
    )


@cache
def load_platform(name: str) -> Platform:
    """A shipped platform by name, or the path of a spec file.

    Raises:
        SpecError: no such platform; the message lists the known ones.
    """
    return platform_of(load_document("platforms", name))


def platforms() -> tuple[Platform, ...]:
    """All shipped platforms, by name."""
    return tuple(platform_of(document) for document in all_documents("platforms"))
