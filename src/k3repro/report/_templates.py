"""The gate before mkdocs: numbers in page templates, named by line while the author's file is at hand."""

from __future__ import annotations

import re
from collections.abc import Mapping

from k3repro.report._allowlist import Exemption
from k3repro.report._finding import Finding, found
from k3repro.report._grammar import Grammar
from k3repro.report._site import Template

__all__ = ["scan_templates"]

# What is not text of the page: calls, comments, tags, link targets, attribute lists, list markers, table
# rules.
_NOT_TEXT = re.compile(
    r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|<!--.*?-->|<[^<>]*>|\]\([^)]*\)|\{:[^}]*\}|&[#\w]+;|^\s*\d+\.\s",
    re.DOTALL | re.MULTILINE,
)


def scan_templates(
    templates: Mapping[str, Template], grammar: Grammar, exemptions: list[Exemption]
) -> list[Finding]:
    """Findings by file and line. The built page is checked again, so this only has to be right, not
    complete.
    """
    findings = []
    for name, template in templates.items():
        page = name.removesuffix(".md") + ".html"
        exempt = {item.token for item in exemptions if item.page == page}
        plain = _NOT_TEXT.sub(lambda match: "\n" * match.group().count("\n") + "\ufffc", template.text)
        for number, line in enumerate(plain.splitlines(), 1):
            for token in grammar.tokens(line):
                if token.text not in exempt:
                    where = f"{template.where}:{number}"
                    fix = "Bind it with {{ value(...) }}, or reword the sentence."
                    findings.append(found(where, f"{token.text!r} has no artifact", token.rule, fix))
    return findings
