"""Ten true posts in styles that no detector was written for: many relations, no false alarm."""

from __future__ import annotations

from pathlib import Path

from k3repro.check import check_document, read_document

STYLES = sorted((Path(__file__).parent / "styles").iterdir())


def test_true_posts_in_other_styles_raise_no_alarm() -> None:
    checked = [check_document(read_document(path)) for path in STYLES]
    assert len(checked) == 10
    assert [(c.document.path, r.says) for c in checked for r in c.findings] == []
    assert sum(len(c.relations) for c in checked) >= 20
