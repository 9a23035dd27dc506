# ruff: noqa: E501
"""Numbers in every notation we know of, and the places of a page where somebody could put one."""

from __future__ import annotations

import html as markup
import json
import re
from collections.abc import Callable

# notation -> examples; every one must be found in every place
NOTATIONS: dict[str, tuple[str, ...]] = {
    "integer": ("74", "8"),
    "decimal": ("3.14", ".5"),
    "unit attached": ("74ms", "40GB"),
    "unit apart": ("74 ms", "12 tok/s"),
    "multiplier": ("3.1x", "3.1×", "2X"),
    "suffix": ("900K", "~35k", "1.5M"),
    "binary suffix": ("512Ki",),
    "fraction": ("1/2", "3⁄4"),
    "fraction character": ("½", "⅓", "2¾"),
    "superscript": ("10³", "n²"),
    "subscript": ("x₂",),
    "percent": ("12%", "12 percent", "0.5‰"),
    "range": ("5-7", "5–7", "5 to 7"),
    "sign": ("±3", "-4", "−4", "+9"),
    "grouped": ("1,234.5", "1 234", "1_000", "1'000"),
    "scientific": ("1.2e-3", "6.02×10²³", "2E8"),
    "full width": ("７４", "３．１"),
    "other digits": ("٧٤", "७४", "৭৪", "๗๔"),
    "styled digits": ("𝟕𝟒", "𝟟𝟜"),
    "circled": ("①", "⑳", "❼"),
    "pictured": ("🔟", "⚄", "🕖", "🂷", "⠼⠛"),
    "roman character": ("Ⅻ", "ⅳ"),
    "roman": ("XII", "IV", "LXX", "MMXXVI", "iii", "xii"),
    "han": ("三", "百"),
    "word": (
        "twenty",
        "Twelve",
        "SEVEN",
        "thirty",
        "hundred",
        "zero",
        "zeroes",
        "nought",
        "sixes",
        "thirdly",
    ),
    "compound word": ("twenty-seven", "two hundred", "ninetynine", "threescore"),
    "fraction word": ("half", "third", "two-thirds", "a quarter"),
    "multiple word": (
        "twice",
        "thrice",
        "doubled",
        "a dozen",
        "tenfold",
        "triple",
        "quintupled",
        "trebling",
        "doubly",
        "a couple",
    ),
    "large word": ("thousands", "million", "quadrillion", "a trillionth", "lakhs"),
    "hidden joint": ("t\u200bwelve", "sev\u00aden", "ei\u2060ght", "t\u200dwenty", "t\U000e0041en"),
    "lookalike": ("s\u0435ven", "tw\u0435lv\u0435", "t\u0301en", "🅣🅔🅝", "ᴛᴇɴ"),
    "full width word": ("ｔｗｅｎｔｙ",),
    "currency": ("$5", "€7"),
    "ordinal": ("3rd", "sixth"),
    "index": ("#3", "§5", "N=8"),
    "hexadecimal": ("0x1F",),
    "version": ("v1.2", "K3.7"),
    "name": ("p74", "MI999X"),
    "name and number": ("p99=74", "MI325X:74", "K3-74"),
    "date": ("2026-11-29", "12:30"),
}
ALL = [(name, text) for name, texts in NOTATIONS.items() for text in texts]

Plant = Callable[[str, str], str]


def _before(anchor: str, template: str) -> Plant:
    def plant(page: str, token: str) -> str:
        assert anchor in page
        return page.replace(anchor, template.replace("TOKEN", markup.escape(token)) + anchor, 1)

    return plant


def _inside(pattern: str) -> Plant:
    """After the first match of a pattern."""

    def plant(page: str, token: str) -> str:
        match = re.search(pattern, page, re.DOTALL)
        assert match, pattern
        return page[: match.end()] + f" {markup.escape(token)} " + page[match.end() :]

    return plant


def _entities(page: str, token: str) -> str:
    coded = "".join(f"&#x{ord(character):x};" for character in token)
    return page.replace("</article>", f"<p>{coded}</p></article>", 1)


def _split(page: str, token: str) -> str:
    middle = len(token) // 2
    left, right = markup.escape(token[:middle]), markup.escape(token[middle:])
    return page.replace("</article>", f"<p>takes <b>{left}</b><i>{right}</i> each</p></article>", 1)


def _unknown(page: str, token: str) -> str:
    """In an element that browsers do not know, and so show in one line with what is around it."""
    middle = len(token) // 2
    left, right = markup.escape(token[:middle]), markup.escape(token[middle:])
    return page.replace("</article>", f"<p>takes {left}<x-y>{right}</x-y> each</p></article>", 1)


def _spec(change: Callable[[dict, str], None]) -> Plant:
    def plant(page: str, token: str) -> str:
        match = re.search(r'(class="k3-spec">)(.*?)(</script>)', page, re.DOTALL)
        assert match
        spec = json.loads(match.group(2))
        change(spec, token)
        text = json.dumps(spec).replace("<", "\\u003c")
        return page[: match.start(2)] + text + page[match.end(2) :]

    return plant


END = "</article>"
# Places inside bound elements: they need a page that has some.
BOUND = frozenset({
    "table caption", "bound cell", "bound header", "figure caption", "bound value", "static drawing", "chart title",
    "axis title", "chart description", "chart data", "chart layer", "quoted code",
})  # fmt: skip
PLACES: dict[str, Plant] = {
    "paragraph": _before(END, "<p>It takes TOKEN here.</p>"),
    "heading": _before(END, "<h2>Up to TOKEN</h2>"),
    "list": _before(END, "<ul><li>TOKEN</li></ul>"),
    "plain table": _before(END, "<table><tr><td>TOKEN</td></tr></table>"),
    "code span": _before(END, "<p>Set <code>TOKEN</code>.</p>"),
    "preformatted": _before(END, "<pre><code>TOKEN</code></pre>"),
    "details": _before(END, "<details><summary>TOKEN</summary></details>"),
    "title attribute": _before(END, '<p title="TOKEN">x</p>'),
    "alternative text": _before(END, '<img src="assets/k3/icon.svg" alt="TOKEN">'),
    "aria label": _before(END, '<p aria-label="TOKEN">x</p>'),
    "aria description": _before(END, '<p aria-description="TOKEN">x</p>'),
    "placeholder": _before(END, '<input placeholder="TOKEN">'),
    "button value": _before(END, '<input type="button" value="TOKEN">'),
    "live output": _before(END, '<output data-live="x">TOKEN</output>'),
    "element nobody knows": _before(END, "<p>It takes <x-y>TOKEN</x-y>.</p>"),
    "formula": _before(END, "<math><mn>TOKEN</mn></math>"),
    "clipboard": _before(END, '<button data-clipboard-text="TOKEN">x</button>'),
    "drawing text": _before(END, "<svg><text>TOKEN</text></svg>"),
    "drawing title": _before(END, "<svg><title>TOKEN</title></svg>"),
    "page title": _before("</title>", " TOKEN"),
    "description": _before("</head>", '<meta name="description" content="TOKEN">'),
    "social card": _before("</head>", '<meta property="og:description" content="TOKEN">'),
    "table caption": _inside(r"<caption>"),
    "bound cell": _inside(r'<td class="k3-number"[^>]*>'),
    "bound header": _inside(r'<th scope="col" data-column[^>]*>'),
    "figure caption": _inside(r"<figcaption>"),
    "bound value": _inside(r'<data class="k3-value"[^>]*>'),
    "static drawing": _inside(r'class="k3-static">.*?<text[^>]*>'),
    "chart title": _spec(lambda spec, token: spec.update(title=token)),
    "axis title": _spec(lambda spec, token: spec["encoding"]["x"].update(title=token)),
    "chart description": _spec(lambda spec, token: spec.update(description=token)),
    "chart data": _spec(lambda spec, token: spec["datasets"]["rows"][0].update(wall_s=token)),
    "chart layer": _spec(lambda spec, token: spec.update(encoding={"text": {"value": token}})),
    "quoted code": _inside(r"<code data-source[^>]*>"),
    "entities": _entities,
    "split by markup": _split,
    "split by an unknown element": _unknown,
    "comment tricks": _before(END, "<p>it <!-- --!>TOKEN</p>"),
}
