"""`k3repro audit check`: a serving publication against its own arithmetic, without preparation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from k3repro.cli import emit
from k3repro.errors import InputError, K3Error, UsageError

_NOTHING = 4
_FILE = click.Path(path_type=Path)
_MAX_PAGE = 32 * 2**20


@click.command("check")
@click.argument("sources", nargs=-1, required=True)
@click.option("--quiet", is_flag=True, help="Print only what differs.")
@click.option("--explain", "one", metavar="ID", help="One relation step by step.")
@click.option("--sarif", "sarif_file", type=_FILE, metavar="FILE", help="Also write SARIF 2.1.0 to FILE.")
@click.option(
    "--html", "html_file", type=_FILE, metavar="FILE", help="Also write an annotated copy (of one document)."
)
@click.option(
    "--suppress", "suppressed", type=_FILE, metavar="FILE", help="Lines `k3check: ignore ID REASON`."
)
@click.option("--nothing-ok", is_flag=True, help="Exit 0 where no relation was recognised (for hooks).")
@click.option(
    "--url", "urls", is_flag=True, help="SOURCES are URLs to download; nothing is fetched without this."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(
    sources: tuple[str, ...],
    quiet: bool,
    one: str | None,
    sarif_file: Path | None,
    html_file: Path | None,
    suppressed: Path | None,
    nothing_ok: bool,
    urls: bool,
    as_json: bool,
) -> None:
    """Recompute the numbers of a publication from each other: .md .html .pdf .ipynb .docx .txt, files or
    folders.

    Exit 0: relations were tested and none failed; 1: some differ; 4: nothing to test; 2: a file cannot be
    read.

    \b
    k3repro audit check post.md
    k3repro audit check posts/ --quiet --sarif check.sarif
    k3repro audit check report.pdf --json
    k3repro audit check post.md --html checked.html
    k3repro audit check post.md --explain from-to-3fa2c1
    k3repro audit check --url https://example.org/post.html
    """
    from k3repro import check

    extra = check.suppressions(_read(suppressed)) if suppressed else {}
    checks: list[Any] = []
    failed: list[K3Error] = []
    for name in _named(sources, check.SUFFIXES, urls=urls):
        try:
            document = _download(name) if urls else check.read_document(Path(name))
        except InputError as error:
            failed.append(error)
            continue
        document.suppressions.update(extra)
        checks.append(check.check_document(document))
    _write(checks, sarif_file, html_file)
    if one is not None:
        _explain(checks, one)
    elif as_json:
        emit(
            {
                "files": [check.as_json(c) for c in checks],
                "errors": [e.as_dict() for e in failed],
                "ok": not failed and not any(c.findings for c in checks),
            }
        )
    else:
        _print(checks, quiet=quiet)
    for problem in failed:
        click.echo(f"k3repro: {problem}", err=True)
    sys.exit(_code(checks, failed, nothing_ok=nothing_ok))


def _code(checks: Sequence[Any], failed: Sequence[K3Error], *, nothing_ok: bool) -> int:
    if failed:
        return 2
    if any(checked.findings for checked in checks):
        return 1
    return 0 if nothing_ok or any(checked.relations for checked in checks) else _NOTHING


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path), fix="Check the path.") from None


def _named(sources: Iterable[str], suffixes: Sequence[str], *, urls: bool) -> Iterator[str]:
    """Files as named, and those of a folder and below it whose suffix is known."""
    for name in sources:
        if urls or urlsplit(name).scheme in ("http", "https"):
            if not urls:
                raise UsageError(f"{name} is an address", fix="Add --url to download it.")
            yield name
        elif Path(name).is_dir():
            found = (p for p in sorted(Path(name).rglob("*")) if p.suffix.lower() in suffixes and p.is_file())
            yield from (
                str(p) for p in found if not any(part.startswith(".") for part in p.relative_to(name).parts)
            )
        else:
            yield name


def _download(address: str) -> Any:
    """A page by its address: http(s) only, at most 32 MiB, 30 seconds."""
    from urllib.request import Request, urlopen

    from k3repro import check

    if urlsplit(address).scheme not in ("http", "https"):
        raise UsageError(f"{address} is no http address", fix="Give http:// or https://.")
    try:
        with urlopen(Request(address, headers={"User-Agent": "k3repro"}), timeout=30) as answer:
            data, kind = answer.read(_MAX_PAGE + 1), answer.headers.get_content_type()
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be downloaded: {error}", where=address, fix="Download it and name the file."
        ) from None
    if len(data) > _MAX_PAGE:
        raise InputError(
            f"is larger than {_MAX_PAGE} bytes", where=address, fix="Download it and cut it down."
        )
    suffix = Path(urlsplit(address).path).suffix.lower()
    by_kind = {"text/html": ".html", "application/pdf": ".pdf", "text/markdown": ".md", "text/plain": ".txt"}
    return check.read_bytes(data, address, suffix if suffix in check.SUFFIXES else by_kind.get(kind, ".html"))


def _write(checks: Sequence[Any], sarif_file: Path | None, html_file: Path | None) -> None:
    from k3repro import check

    if sarif_file is not None:
        sarif_file.write_text(
            json.dumps(check.sarif(checks), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    if html_file is not None:
        if len(checks) != 1:
            raise UsageError("--html takes one document", fix="Name one file.")
        html_file.write_text(check.annotated(checks[0]), encoding="utf-8")


def _explain(checks: Sequence[Any], name: str) -> None:
    from k3repro import check

    for checked in checks:
        for relation in checked.relations:
            if relation.id == name:
                click.echo("\n".join(check.explain(relation, checked.document)))
                return
    raise UsageError(f"no relation {name}", fix="Ids are printed in brackets, and change with the numbers.")


def _print(checks: Sequence[Any], *, quiet: bool) -> None:
    from k3repro import check

    for checked in checks:
        if not quiet or checked.findings or checked.unused:
            for line in check.lines(checked, quiet=quiet):
                click.echo(line)
    if len(checks) > 1:
        tested = sum(len(c.relations) for c in checks)
        click.echo(
            f"{len(checks)} documents, {tested} relations, {sum(len(c.findings) for c in checks)} differ."
        )
