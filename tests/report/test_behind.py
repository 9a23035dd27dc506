"""What lies behind a page: rows beyond a screen, columns beyond the first few, SQL of the cards."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.report.test_audit import forge_manifest

from k3repro.report import audit_site
from k3repro.report._tables import FIRST_ROWS, MOST_COLUMNS

LONG = "behind/long.js"


def data_of(folder: Path, name: str) -> dict:
    text = (folder / name).read_text("utf-8")
    return json.loads(text.removeprefix("window.k3Behind=").removesuffix(";\n"))


def test_a_long_table_shows_its_first_rows_and_the_data_file_holds_the_others(built: Path) -> None:
    html = (built / "long.html").read_text("utf-8")
    body = html.split("<tbody", 1)[1].split("</tbody>", 1)[0]
    (rows,) = data_of(built, LONG)["rows"].values()
    assert body.count("<tr") == FIRST_ROWS and len(rows) == 25 - FIRST_ROWS
    assert 'data-total="25"' in html and all(row.startswith("<tr") for row in rows)


def test_a_wide_table_folds_all_but_the_first_columns(built: Path) -> None:
    head = (built / "long.html").read_text("utf-8").split("<thead>", 1)[1].split("</thead>", 1)[0]
    heads = re.findall(r'<th scope="col"([^>]*)>', head)
    assert len(heads) == 8 and sum("k3-more" not in attributes for attributes in heads) == MOST_COLUMNS


def test_the_tier_stands_once_where_all_rows_share_it(built: Path) -> None:
    html = (built / "long.html").read_text("utf-8")
    assert html.count('class="k3-tier"') == 1 and ">tier</th>" not in html
    mixed = (built / "wall-law.html").read_text("utf-8")
    assert mixed.count('<tr class="k3-same">') >= 1


def test_a_page_without_a_query_has_no_data_file(built: Path) -> None:
    assert not (built / "behind" / "index.js").exists()


CHANGES: dict[str, Callable[[str], str]] = {
    "a row": lambda text: re.sub(r'(data-value=\\")(\d)', r"\g<1>7\2", text, count=1),
    "a row left out": lambda text: re.sub(r'(:\[)"\\u003ctr.*?/tr\\u003e\\n",', r"\1", text, count=1),
    "the SQL": lambda text: text.replace("ORDER BY", "ORDER  BY", 1),
    "the tier of an artifact": lambda text: text.replace('"tier":"simulated"', '"tier":"measured"', 1),
    "code after the data": lambda text: text + "document.title='x';\n",
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_a_change_behind_a_page_is_found(built: Path, tmp_path: Path, change: str) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "copy"))
    before = (folder / LONG).read_text("utf-8")
    after = CHANGES[change](before)
    assert after != before
    (folder / LONG).write_text(after, "utf-8")
    forge_manifest(folder)
    assert [item for item in audit_site(folder).findings if item.where == LONG]


@pytest.mark.parametrize("name", ["behind/index.js", "behind/other.js"])
def test_a_data_file_of_no_page_is_found(built: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "copy"))
    shutil.copyfile(folder / LONG, folder / name)
    forge_manifest(folder)
    assert [item for item in audit_site(folder).findings if item.where == name]


def test_a_missing_data_file_is_found(built: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(built, tmp_path / "copy"))
    (folder / LONG).unlink()
    forge_manifest(folder)
    assert [item for item in audit_site(folder).findings if item.where == LONG]
