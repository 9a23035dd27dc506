"""Scripts and styles of a built site: those of the installed packages, byte for byte, and nothing from
elsewhere.

A script that nobody knows could change any number when the page is viewed, so an audit does not accept one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from k3repro.report._engine import engine_digests
from k3repro.report._files import file_sha256
from k3repro.report._finding import Finding, found
from k3repro.report._markup import sha256
from k3repro.report._mkdocs import VEGA, content_policy, is_vega, own_assets
from k3repro.report._search import INDEX

__all__ = ["check_files", "check_page_scripts", "is_installed"]

_CODE = frozenset({".js", ".mjs", ".css", ".wasm", ".svg"})
# Where a file that is neither script, style nor asset may lie; each kind has a check of its own.
_PLACES = re.compile(
    r"manifest\.json|[^\n]+\.html|data/[^/]+\.(?:csv|parquet)|queries/[^/]+\.sql|sources/[^\n]+|gate/(?:vocabulary|exemptions)\.toml"
    r"|artifacts/ledger/[0-9a-f]{64}\.json|artifacts/signatures/[0-9a-f-]+\.txt|artifacts/signers|artifacts/[^\n]+\.duckdb"
)
_JINJA = re.compile(r"\{\{.*?\}\}")
_LOADS = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "use": ("href",),
}
_DATA_SCRIPTS = ("k3-console-data", "k3-spec")


@lru_cache(maxsize=1)
def _installed() -> frozenset[str]:
    """SHA-256 of every script and style that k3repro's site may hold, but for the bundle of Vega."""
    return frozenset({sha256(data) for data in own_assets().values()} | engine_digests())


@lru_cache(maxsize=1)
def _inline() -> tuple[re.Pattern[str], ...]:
    """The theme's inline scripts, with a hole where it writes the path of the page's root."""
    folder = Path(str(resources.files("material").joinpath("templates/partials/javascripts")))
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("*.html"))]
    bodies = [body for text in texts for body in re.findall(r"<script>(.*?)</script>", text, re.DOTALL)]
    return tuple(re.compile(r"[./]*".join(map(re.escape, _JINJA.split(body)))) for body in bodies)


def is_installed(name: str, path: Path) -> bool:
    """Whether a file has the bytes of a script or style of the installed packages."""
    digest = file_sha256(path)
    return digest in _installed() or (name == VEGA and is_vega(digest))


def check_files(root: Path, made: Collection[str] = (INDEX,)) -> list[Finding]:
    """Findings for scripts, styles and pictures that no installed package owns, and for files of no kind.

    made: scripts of data whose bytes somebody else compares.
    """
    findings = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file():
            continue
        is_code = path.suffix in _CODE or name.startswith("assets/")
        if not is_code and not _PLACES.fullmatch(name):
            findings.append(found(name, "no check knows a file of this kind here", "file", "Remove it."))
        elif is_code and name not in made and not is_installed(name, path):
            fix = (
                "Built by another version? Audit with that one; else it could change any number when viewed."
            )
            findings.append(found(name, "is not a script or style of the installed packages", "script", fix))
    return findings


def check_page_scripts(name: str, root: Any, data: bytes) -> Iterator[Finding]:
    """Findings about scripts inside a page, handlers, outside addresses and its content security policy."""
    for element in root.iter():
        if isinstance(element.tag, str):
            yield from (found(f"{name} <{element.tag}>", what, "script") for what in _element(element))
    if content_policy(data.decode("utf-8", "replace")).encode() not in data:
        yield found(name, "its content security policy does not name just its own scripts", "script")


def _element(element: Any) -> Iterator[str]:
    for key, value in element.attrib.items():
        if key.startswith("on"):
            yield f"the handler {key}"
        if ":" in value and "javascript:" in re.sub(r"\s", "", value).lower():
            yield f"a script in {key}"
    for key in _LOADS.get(element.tag, ()):
        value = element.get(key) or ""
        if (
            re.match(r"\s*(?:[a-z][a-z0-9+.-]*:|//)", value, re.IGNORECASE)
            and element.get("rel") != "canonical"
        ):
            yield f"{value[:60]!r} is loaded from outside"
    if element.tag == "script" and not element.get("src"):
        yield from _inline_script(element)
    if element.tag == "meta" and (element.get("http-equiv") or "").lower() == "refresh":
        yield "a page that leads elsewhere by itself"


def _inline_script(element: Any) -> Iterator[str]:
    text = element.text or ""
    if element.get("type") == "application/json":
        known = any(kind in (element.get("class") or "").split() for kind in _DATA_SCRIPTS)
        if not known:
            yield "data that no check knows"
    elif not any(pattern.fullmatch(text) for pattern in _inline()):
        yield f"an inline script that is not the theme's: {text[:40]!r}"
