"""Where a built site shows what a twin gave, and whether it says so there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from k3repro.report._html import fragment, parse_page
from k3repro.store import Artifact, Store

SIMULATED = "simulated"


def of_twins(store: Store) -> set[str]:
    """Seals of artifacts in whose making a twin core was seen, at any remove."""
    known = {a.seal: a for a in store.artifacts(current=False) if a.path.is_file()}
    found: dict[str, bool] = {}

    def made_by_one(artifact: Artifact) -> bool:
        if artifact.seal not in found:
            own = artifact.tier == SIMULATED or SIMULATED in artifact.document.get("observed", ())
            found[artifact.seal] = own or any(made_by_one(known[s]) for s in artifact.inputs if s in known)
        return found[artifact.seal]

    return {seal for seal, artifact in known.items() if made_by_one(artifact)}


def places(root: Path, twins: set[str]) -> Iterator[tuple[str, bool]]:
    """Every place of a built site that cites something of a twin, and whether it wears the badge."""
    for path in sorted(root.rglob("*.html")):
        name = path.relative_to(root).as_posix()
        tree = parse_page(path.read_bytes())[0]
        yield from _elements(name, tree, twins)
        yield from _figures(name, tree, twins)
        behind = root / "behind" / f"{name.removesuffix('.html')}.js"
        if behind.is_file():
            for text in _texts(json.loads(behind.read_text("utf-8").partition("=")[2].rstrip(";\n"))):
                if text.startswith(("<tr", "<li")):
                    whole = "table" if text.startswith("<tr") else "ul"
                    yield from _elements(behind.name, fragment(f"<{whole}>{text}</{whole}>"), twins)


def _elements(name: str, tree: Any, twins: set[str]) -> Iterator[tuple[str, bool]]:
    for element in tree.xpath("//*[@data-artifacts]"):
        if twins & set(element.get("data-artifacts").split()):
            said = SIMULATED in (element.get("data-tier"), element.get("data-basis"))
            tables = element.xpath("ancestor-or-self::table[@data-query]")
            yield f"{name} <{element.tag} {element.get('id', '')}>", said and all(map(_told, tables))


def _figures(name: str, tree: Any, twins: set[str]) -> Iterator[tuple[str, bool]]:
    """A drawing wears its badges in its caption, a small one on its card."""
    for script in tree.xpath("//script[contains(@class,'k3-spec')]"):
        if twins & set(json.loads(script.text)["usermeta"]["artifacts"]):
            figure = script.xpath("ancestor::figure")[0]
            small = "k3-mini" in figure.get("class")
            holder = figure.getparent() if small else figure.find("figcaption")
            yield f"{name} <figure {figure.get('id')}>", _told(holder)


def _told(element: Any) -> bool:
    badges = element.xpath(".//span[contains(@class,'k3-tier')]")
    return any("".join(badge.itertext()).endswith(SIMULATED) for badge in badges)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
