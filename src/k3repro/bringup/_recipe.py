"""A recipe: every flag, variable and port of a serve with its reason and source, from TOML."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from k3repro.bringup import _sanitise
from k3repro.bringup._cluster import find_pipelines
from k3repro.bringup._names import flags_of_engine
from k3repro.bringup._values import knob_value, layout_value
from k3repro.errors import SpecError
from k3repro.spec import Layout, Model, Platform, load_layout, load_model, load_platform
from k3repro.toml import read_toml

_TOP = ("name", "title", "model", "container_prefix", "extends", "layout", "fabric", "sources", "choice")
SECTIONS = (
    "pins",
    "ports",
    *(f"flags.{part}" for part in ("all", "master", "worker", "prefill", "decode")),
    *(f"pool.{part}" for part in ("prefill", "decode")),
    "transfer",
    "transfer.extra",
    *(f"env.{part}" for part in ("all", "prefill", "decode")),
    "container",
    "router.flags",
    "order",
    "memory",
)


_OPTIONAL = {
    "order": ("workload",),
    "transfer.extra": ("read_mode", "defer_timeout", "transfer_timeout", "backend", "host_ip"),
}
"""Knobs that this code or the connector reads (vLLM moriio_common.py) and no shipped recipe sets."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: its value (a name beginning with @ is filled in), why it is there, who says so."""

    value: Any
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the stored recipe and the publication disagree, and which one this recipe follows."""

    topic: str
    stored: str
    published: str
    follows: str
    why: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A full launch description. `sections` maps e.g. ``flags.all`` to knobs in the order of the file."""

    name: str
    title: str
    model: Model
    layout: Layout
    platform: Platform
    fabric: str
    container_prefix: str
    sections: Mapping[str, Mapping[str, Knob]]
    choices: tuple[Choice, ...]
    where: str

    def get(self, section: str, name: str) -> Any:
        """The value of one knob.

        Raises:
            SpecError: the recipe has no such knob.
        """
        try:
            return self.sections[section][name].value
        except KeyError:
            raise SpecError(f"the recipe has no {section}.{name}", where=self.where) from None

    def knobs(self, *sections: str) -> Iterator[tuple[str, Knob]]:
        """Knobs of several sections, in order; a later section replaces what an earlier one set, in place.

        Of --x and --no-x the later stands: an engine would take its last word, and rules read the first.
        """
        merged: dict[str, Knob] = {}
        for section in sections:
            for name, knob in self.sections.get(section, {}).items():
                merged.pop(_opposite(name), None)
                merged[name] = knob
        yield from merged.items()

    def with_overrides(self, overrides: Mapping[str, Any]) -> Recipe:
        """A copy with other values: ``{"layout.max_num_seqs": 32, "env.all.K3_WRITE_READBACK": "0"}``.

        The value None removes a knob. The new knob says that it was overridden.

        Raises:
            SpecError: no such section or layout field, or a value that it cannot hold.
        """
        recipe = self
        for key, value in overrides.items():
            recipe = recipe._override(key, value)
        return recipe

    def _place(self, key: str) -> tuple[str, str]:
        """Section and name of a knob. New flags and variables may be added; of other knobs there are no more.

        Raises:
            SpecError: no such section, or a knob that nothing reads.
        """
        section = next(
            (name for name in sorted(SECTIONS, key=len, reverse=True) if key.startswith(f"{name}.")), None
        )
        if section is None:
            fix = f"Sections: layout, {', '.join(SECTIONS)}."
            raise SpecError(f"no section for {key!r}", where=self.where, fix=fix)
        name = key[len(section) + 1 :]
        known = [*self.sections.get(section, {}), *_OPTIONAL.get(section, ())]
        if not section.startswith(("env.", "flags.", "router.flags")) and name not in known:
            raise SpecError(f"nothing reads {key}", where=self.where, fix=_near(name, known))
        return section, name

    def _override(self, key: str, value: Any) -> Recipe:
        if key.startswith("layout."):
            field = {key[7:]: layout_value(key[7:], value, self.where)}
            return replace(self, layout=replace(self.layout, **field))
        section, name = self._place(key)
        read = flags_of_engine() if section.startswith("flags.") else ()
        _sanitise.no_secret(name, value, f"{self.where}: {key}", known=read)
        value = knob_value(section, name, value, self.where)
        knobs = dict(self.sections.get(section, {}))
        if value is None:
            knobs.pop(name, None)
        else:
            knobs[name] = Knob(value, "overridden for this plan", "override")
        return replace(self, sections={**self.sections, section: knobs})


def _opposite(flag: str) -> str:
    return f"--{flag[5:]}" if flag.startswith("--no-") else f"--no-{flag[2:]}"


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(known)}."


def load_recipe(name: str, folder: Path | None = None) -> Recipe:
    """A recipe of `pipelines/recipes` by name, or the path of a TOML file.

    Raises:
        SpecError: no such recipe, a knob without reason or source, a source nobody defined.
    """
    base = folder or find_pipelines() / "recipes"
    path = Path(name) if name.endswith(".toml") else base / f"{name}.toml"
    if not path.is_file():
        known = sorted(item.stem for item in base.glob("*.toml"))
        raise SpecError(
            f"no recipe {name!r}", fix=f"Known: {', '.join(known)}; or give the path of a .toml file."
        )
    try:
        return _recipe(_read(path), path.name)
    except (KeyError, TypeError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise SpecError(f"its fields do not make a recipe ({said})", where=path.name) from None


def _read(path: Path) -> dict[str, Any]:
    """The document, on top of what it extends."""
    raw = read_toml(path, error=SpecError)
    if "extends" not in raw:
        return raw
    base = path.parent / str(raw["extends"])
    if not base.is_file() or "extends" in raw["extends"]:
        raise SpecError(f"extends {raw['extends']!r}, which is no file beside it", where=path.name)
    return _merged(_read(base), raw)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        nested = isinstance(value, dict) and "value" not in value and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if nested else value
    return merged


def _recipe(raw: dict[str, Any], where: str) -> Recipe:
    legend = raw.get("sources", {})
    sections = {section: _knobs(_section(raw, section), section, legend, where) for section in SECTIONS}
    _nothing_else(raw, where)
    if "layout" not in raw:
        raise SpecError(
            "the recipe names no layout", where=where, fix="It is a base; use one that extends it."
        )
    layout = load_layout(raw["layout"])
    return Recipe(
        raw["name"], raw.get("title", raw["name"]), load_model(raw["model"]), layout,
        load_platform(layout.platform), raw.get("fabric", ""), _prefix(raw, where), sections,
        tuple(Choice(**choice) for choice in raw.get("choice", ())), where,
    )  # fmt: skip


def _prefix(raw: Mapping[str, Any], where: str) -> str:
    """What container names begin with; it stands in commands, so it is a name itself."""
    return _sanitise.host_name(raw.get("container_prefix", "k3_"), f"{where}: container_prefix")


def _section(raw: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    node: Any = raw
    for part in section.split("."):
        node = node.get(part, {})
    # [transfer] holds knobs and the table [transfer.extra].
    return {key: value for key, value in node.items() if f"{section}.{key}" not in SECTIONS}


def _knobs(values: Mapping[str, Any], section: str, legend: Mapping[str, str], where: str) -> dict[str, Knob]:
    knobs = {}
    for name, entry in values.items():
        spot = f"{where}: {section}.{name}"
        if not isinstance(entry, dict) or set(entry) != {"value", "why", "source"}:
            raise SpecError("a knob is { value, why, source }", where=spot)
        if entry["source"] not in legend or not entry["why"]:
            raise SpecError(f"source {entry['source']!r} or the reason is missing", where=spot)
        _sanitise.no_secret(name, entry["value"], spot)
        value = knob_value(section, name, entry["value"], where)
        knobs[name] = Knob(value, entry["why"], legend[entry["source"]])
    return knobs


def _nothing_else(raw: Mapping[str, Any], where: str) -> None:
    tops = {section.partition(".")[0] for section in SECTIONS} | set(_TOP)
    unknown = [key for key in raw if key not in tops]
    for key, value in raw.items():
        if key in {"flags", "pool", "env", "router"}:
            unknown += [f"{key}.{below}" for below in value if f"{key}.{below}" not in SECTIONS]
    if unknown:
        raise SpecError(f"unknown section {', '.join(sorted(unknown))}", where=where)
