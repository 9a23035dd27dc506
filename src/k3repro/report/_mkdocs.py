"""Run mkdocs over generated Markdown and make what it wrote the same everywhere and strict in the browser."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped]

import k3repro
from k3repro.errors import GateFailed, InputError, MissingExtra
from k3repro.report._dress import DARK, palette_css
from k3repro.report._figures import theme
from k3repro.report._kept import KEPT
from k3repro.report._markup import canonical_json, sha256
from k3repro.report._site import Site

__all__ = [
    "asset_files",
    "configuration",
    "content_policy",
    "finish_html",
    "html_name",
    "is_vega",
    "overrides",
    "own_assets",
    "package_assets",
    "page_keys",
    "run_mkdocs",
]

T = TypeVar("T")
VEGA = "assets/k3/vega.js"
OVERRIDES = "overrides"
MANY_PAGES = 16  # from here on a second process pays for its start
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)

_INLINE = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)[^>]*>(.*?)</script>", re.DOTALL)
_GENERATOR = re.compile(r'\s*<meta name="generator"[^>]*>')
_ASSETS = (
    "icon.svg",
    "k3-console.js",
    "k3-figures.js",
    "k3-search.js",
    "k3-shell.js",
    "k3-sizing.js",
    "k3.css",
    "k3.js",
)
# What a build leaves that depends on the day, or needs a server.
UNWANTED = ("sitemap.xml", "sitemap.xml.gz", "404.html", "objects.inv")
# What the theme brings and no page loads: see `_theme` and `overrides/main.html`.
UNWANTED_FOLDERS = ("assets/javascripts", "assets/stylesheets", "assets/images", "search")
# What the gate asks of any site, so no site has to say it; a site's own mkdocs.yml goes before.
_THEME: dict[str, Any] = {
    "name": "material",
    "font": False,
    "favicon": "assets/k3/icon.svg",
    "logo": "assets/k3/icon.svg",
    "palette": [
        {"media": f"(prefers-color-scheme: {light})", "scheme": name, "primary": "custom", "accent": "custom"}
        for light, name in (("light", "default"), ("dark", "slate"))
    ],
}


@cache
def vega_bundle() -> str:
    """vega, vega-lite and vega-embed as one script: shipped once, the same bytes on each call."""
    try:
        import vl_convert
    except ImportError:
        raise MissingExtra("charts need vl-convert", fix="pip install 'k3repro[site]'") from None
    version = metadata.version("vl-convert-python")
    return KEPT.get("vega", version, lambda: str(vl_convert.javascript_bundle()))  # type: ignore[call-arg]


def is_vega(digest: str) -> bool:
    """Whether a digest is that of the bundle, noted for this version or else of the one that is made now."""
    noted = json.loads(resources.files("k3repro.report").joinpath("assets/vega.json").read_text("utf-8"))
    return bool(noted.get(metadata.version("vl-convert-python")) == digest) or sha256(vega_bundle()) == digest


def package_assets() -> dict[str, bytes | str]:
    """Scripts and styles that every page loads, by their path in the site."""
    return {**own_assets(), VEGA: vega_bundle()}


def own_assets() -> dict[str, bytes | str]:
    """Those of them that are written here."""
    package = resources.files("k3repro.report").joinpath("assets")
    files: dict[str, bytes | str] = {
        f"assets/k3/{name}": package.joinpath(name).read_bytes() for name in _ASSETS
    }
    files["assets/k3/theme.js"] = (
        f"window.k3Theme={canonical_json(theme())};\nwindow.k3Dark={canonical_json(DARK)};\n"
    )
    files["assets/k3/palette.css"] = palette_css()
    return files


def asset_files(site: Site) -> dict[str, bytes | str]:
    """The package's assets, and what `site/assets` adds."""
    files = package_assets()
    for path in sorted(site.assets.rglob("*")) if site.assets.is_dir() else []:
        if path.is_file():
            files[f"assets/site/{path.relative_to(site.assets).as_posix()}"] = path.read_bytes()
    return files


def overrides(site: Site) -> dict[str, str]:
    """Our templates for the theme, by name, and over them those of `site/overrides`."""
    own = Path(str(resources.files("k3repro.report").joinpath(OVERRIDES)))
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for root in (own, site.root / OVERRIDES)
        for path in sorted(root.rglob("*.html"))
    }


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
    config["theme"] = {**_THEME, **config.get("theme", {}), "custom_dir": OVERRIDES}
    config["extra"] = {"generator": False, **config.get("extra", {}), "k3_heads": list(heads)}
    config.setdefault("plugins", [])
    config["extra_css"] = ["assets/k3/k3.css", "assets/k3/palette.css"]
    config["extra_javascript"] = ["assets/k3/k3-shell.js", "assets/k3/theme.js", "assets/k3/k3.js"]
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


def page_keys(pages: Mapping[str, str], config: str, identity: str) -> dict[str, list[str]]:
    """What the HTML of each page is made from: its Markdown, and of the others what menus show of them.

    That is their front matter; of one that says no title there, and where mkdocs has plugins, all.
    """
    alone = "\nplugins: []\n" in config
    shown = {}
    for name, text in pages.items():
        front = _FRONT.match(text)
        shown[name] = front[0] if alone and front and "\ntitle:" in front[0] else text
    every = sha256(canonical_json([identity, config, shown]))
    return {name: [every, name, sha256(text)] for name, text in pages.items()}


def html_name(page: str) -> str:
    """Where a page of Markdown stands in the site."""
    return f"{page.removesuffix('.md')}.html"


def run_mkdocs(folder: Path, target: Path, pages: Sequence[str], meanwhile: Callable[[], T]) -> T:
    """Build some pages of `folder/mkdocs.yml` into `target`, in processes whose date, zone, locale and hash
    seed are fixed.

    meanwhile: what to do here while they run; its result is returned.

    Raises:
        GateFailed: mkdocs warns or fails; its first line is the reason.
    """
    several = len(pages) >= MANY_PAGES and (os.cpu_count() or 1) > 1
    shares = {target: pages[::2], target.with_name(f"{target.name}-half"): pages[1::2]}
    with ExitStack() as stack:
        running = [
            stack.enter_context(_Mkdocs(folder, into, share))
            for into, share in (shares if several else {target: pages}).items()
        ]
        result = meanwhile()
        for process in running:
            process.wait()
    for into in [*shares][1:] if several else ():
        for name in shares[into]:
            page = target / html_name(name)
            page.parent.mkdir(parents=True, exist_ok=True)
            (into / html_name(name)).replace(page)
        shutil.rmtree(into)
    return result


class _Mkdocs:
    """One process of mkdocs, which does not outlive its `with`."""

    def __init__(self, folder: Path, target: Path, pages: Sequence[str]) -> None:
        environment = {
            **os.environ,
            "NO_MKDOCS_2_WARNING": "1",
            "SOURCE_DATE_EPOCH": "315532800",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": os.pathsep.join([str(Path(k3repro.__file__).parents[1]), *sys.path[1:]]),
        }
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "k3repro.report._mkdocs_some", str(target)],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=self._said, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:  # one that died says why when it is waited for
            pipe.write(json.dumps(list(pages)).encode())

    def wait(self) -> None:
        """Raises: GateFailed: it warned or failed."""
        if self._process.wait():
            self._said.seek(0)
            _refuse([line for line in self._said.read().splitlines() if line.strip()])

    def __enter__(self) -> _Mkdocs:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()


def _refuse(lines: list[str]) -> None:
    first = lines[0] if lines else "?"
    reason = next((line for line in lines if "ERROR" in line or "WARNING" in line), first)
    if any("No module named 'mkdocs" in line for line in lines):
        raise MissingExtra("the site needs mkdocs-material", fix="pip install 'k3repro[site]'")
    raise GateFailed(reason.strip(), where="mkdocs", fix="Mend the page or site/mkdocs.yml.")


def finish_html(html: str) -> str:
    """A page without its generator mark, with a content security policy that names its inline scripts by
    hash.
    """
    html = _GENERATOR.sub("", html)
    policy = content_policy(html)
    return html.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n      {policy}', 1)


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
