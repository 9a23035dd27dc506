"""Text into HTML that Python-Markdown passes through untouched, and HTML back into comparable trees."""

from __future__ import annotations

import hashlib
import html
import json
import re
from typing import Any

# Characters that Markdown's inline patterns would act on before they reach raw HTML.
_MARKDOWN = {ord(c): f"&#{ord(c)};" for c in "`[]\\|*_{}~^\n\r\t"}

# Control characters have no place in HTML; browsers and parsers each drop or replace them in their own way.
_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")


def printable(text: str) -> str:
    """`text` with every control character but tab and line ends replaced by U+FFFD."""
    return text.translate(_CONTROL)


def escape(text: object) -> str:
    """`text` for an element or a quoted attribute, inert for Markdown, HTML and Jinja alike."""
    return html.escape(printable(str(text)), quote=True).translate(_MARKDOWN)


def attributes(pairs: dict[str, object]) -> str:
    """` name="value"` for every pair whose value is neither None nor empty; order as given."""
    return "".join(f' {name}="{escape(value)}"' for name, value in pairs.items() if value not in (None, ""))


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces, no NaN: the text that digests are taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no markup can end it early, one line."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def sha256(data: bytes | str) -> str:
    """Hex SHA-256 of bytes, or of text as UTF-8."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def slug(text: str) -> str:
    """Lower-case letters and digits joined by hyphens, for ids."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
