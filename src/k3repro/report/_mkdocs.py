"""Run mkdocs over generated Markdown and make what it wrote the same everywhere and strict in the browser."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped]

from k3repro.errors import GateFailed, InputError, MissingExtra
from k3repro.report._dress import DARK, palette_css
from k3repro.report._figures import theme
from k3repro.report._markup import canonical_json, script_json
from k3repro.report._site import Site

__all__ = ["asset_files", "configuration", "content_policy", "finish_html", "package_assets", "run_mkdocs"]

T = TypeVar("T")

_INLINE = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)
_GENERATOR = re.compile(r'\s*<meta name="generator"[^>]*>')
_CONFIG = re.compile(r'(<script id="__config" type="application/json">)(.*?)(</script>)', re.DOTALL)
_ASSETS = (
    "icon.svg",
    "k3-console.js",
    "k3-figures.js",
    "k3-search.js",
    "k3-sizing.js",
    "k3.css",
    "k3.js",
)
# What a build leaves that depends on the day, or needs a server.
UNWANTED = ("sitemap.xml", "sitemap.xml.gz", "404.html", "objects.inv")


@cache
def vega_bundle() -> str:
    """vega, vega-lite and vega-embed as one script: shipped once, the same bytes on each call."""
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra("charts need vl-convert", fix="pip install 'k3repro[site]'") from None
    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle


def package_assets() -> dict[str, bytes | str]:
    """Scripts and styles that every page loads, by their path in the site."""
    package = resources.files("k3repro.report").joinpath("assets")
    files: dict[str, bytes | str] = {
        f"assets/k3/{name}": package.joinpath(name).read_bytes() for name in _ASSETS
    }
    files["assets/k3/theme.js"] = (
        f"window.k3Theme={canonical_json(theme())};\nwindow.k3Dark={canonical_json(DARK)};\n"
    )
    files["assets/k3/palette.css"] = palette_css()
    files["assets/k3/vega.js"] = vega_bundle()
    return files


def asset_files(site: Site) -> dict[str, bytes | str]:
    """The package's assets, and what `site/assets` adds."""
    files = package_assets()
    for path in sorted(site.assets.rglob("*")) if site.assets.is_dir() else []:
        if path.is_file():
            files[f"assets/site/{path.relative_to(site.assets).as_posix()}"] = path.read_bytes()
    return files


def configuration(
    site: Site, pages: Sequence[str], notebooks: Mapping[str, str], heads: Sequence[str]
) -> str:
    """`mkdocs.yml` as mkdocs gets it: the site's own, navigation reduced to pages that exist, ledger heads
    added.

    Raises:
        InputError: the file is not a mapping with `site_name` and `nav`.
    """
    path = site.root / "mkdocs.yml"
    try:
        config: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
        left = dict.fromkeys(pages)
        nav = [entry for item in config["nav"] for entry in _existing(item, left, notebooks)]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot be read: {error!r}", where=str(path), fix="It needs site_name and nav."
        ) from None
    config["nav"] = nav + list(left)
    config["docs_dir"], config["use_directory_urls"] = "docs", False
    config["theme"]["custom_dir"] = str(site.root / "overrides")
    config.setdefault("extra", {})["k3_heads"] = list(heads)
    config["extra_css"] = ["assets/k3/k3.css", "assets/k3/palette.css"]
    config["extra_javascript"] = ["assets/k3/theme.js", "assets/k3/k3.js"]
    text: str = yaml.safe_dump(config, sort_keys=True, allow_unicode=True)
    return text


def _existing(item: Any, left: dict[str, None], titles: Mapping[str, str]) -> list[Any]:
    """An entry of the navigation as far as its pages exist, which are then no longer `left`.

    `folder/*` stands for every page below a folder that no entry before took.
    """
    if isinstance(item, str):
        found = [page for page in left if fnmatchcase(page, item)]
        for page in found:
            del left[page]
        return [{titles[page]: page} if page in titles else page for page in found]
    title, target = next(iter(item.items()))
    entries = [target] if isinstance(target, str) else target
    children = [child for entry in entries for child in _existing(entry, left, titles)]
    if isinstance(target, str):
        return [{title: page} for page in children]
    return [{title: children}] if children else []


def run_mkdocs(folder: Path, target: Path, meanwhile: Callable[[], T]) -> T:
    """Build `folder/mkdocs.yml` into `target`, in a process whose date, zone, locale and hash seed are fixed.

    meanwhile: what to do here while it runs; its result is returned.

    Raises:
        GateFailed: mkdocs warns or fails; its first line is the reason.
    """
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "SOURCE_DATE_EPOCH": "315532800",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", "mkdocs.yml", "-d"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = subprocess.Popen(
            [*command, str(target)], cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            result = meanwhile()
        except BaseException:
            process.kill()
            process.wait()
            raise
        code = process.wait()
        said.seek(0)
        lines = [line for line in said.read().splitlines() if line.strip()]
    if code:
        _refuse(lines)
    return result


def _refuse(lines: list[str]) -> None:
    first = lines[0] if lines else "?"
    reason = next((line for line in lines if "ERROR" in line or "WARNING" in line), first)
    if "No module named mkdocs" in reason:
        raise MissingExtra("the site needs mkdocs-material", fix="pip install 'k3repro[site]'")
    raise GateFailed(reason.strip(), where="mkdocs", fix="Mend the page or site/mkdocs.yml.")


def finish_html(html: str) -> str:
    """A page without its generator mark, with a content security policy that names its inline scripts by
    hash.
    """
    html = _CONFIG.sub(_shorten_config, _GENERATOR.sub("", html))
    policy = content_policy(html)
    return html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n      {policy}', 1)


def _shorten_config(match: re.Match[str]) -> str:
    """The theme's configuration without search, which this site does not load."""
    config = json.loads(match.group(2))
    config.pop("search", None)
    texts = config.get("translations", {})
    config["translations"] = {key: text for key, text in texts.items() if not key.startswith("search.")}
    return match.group(1) + script_json(config) + match.group(3)


def content_policy(html: str) -> str:
    """Scripts: files of the site and the theme's inline ones by hash; no network, no frames, no eval.

    `style-src` keeps 'unsafe-inline': Vega and the theme set style attributes.
    """
    hashes = sorted({f"'sha256-{_base64(text)}'" for text in _INLINE.findall(html)})
    rules = (
        "default-src 'none'",
        f"script-src 'self' {' '.join(hashes)}".rstrip(),
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def _base64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
