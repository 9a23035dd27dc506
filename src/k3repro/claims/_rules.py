"""Stable codes of what the audit reports; a code never changes its meaning."""

from __future__ import annotations

__all__ = ["RULES", "rule_text"]

# code -> (level in SARIF, what it means)
RULES: dict[str, tuple[str, str]] = {
    "K3C101": ("error", "The other printed numbers give another value, beyond twice the tolerance."),
    "K3C102": ("warning", "The other printed numbers give another value, but within twice the tolerance."),
    "K3C103": ("error", "One quantity is printed with two values."),
    "K3C104": ("error", "The number would be right in another unit."),
    "K3C105": ("warning", "A statistic is quoted for fewer observations than it needs."),
    "K3C106": ("warning", "A limit is rounded the wrong way."),
    "K3C107": ("error", "The parts do not add up to the printed whole."),
    "K3C108": ("error", "A formula's multiplier in the text is not the one behind the number."),
    "K3C109": ("error", "The number contradicts the model's configuration or another named fact."),
    "K3C110": ("warning", "Contradicted, if something holds that the source does not print."),
    "K3C201": ("error", "A measured artifact gives another value."),
    "K3C202": ("note", "Nothing printed and nothing measured backs the number."),
    "K3C203": ("note", "The printed precision cannot decide the number."),
    "K3C301": ("error", "The secondary source altered the number."),
    "K3C302": ("error", "The secondary source changed the unit."),
    "K3C303": ("error", "The secondary source prints a number that the primary one does not have."),
    "K3C304": ("warning", "The secondary source lost the condition under which the number holds."),
    "K3C401": ("error", "A numeral of the source is covered by no claim and no non-claim rule."),
    "K3C402": ("error", "Too large a share of the numerals is explained away as no claim."),
    "K3C501": ("error", "The ledger refers to something that does not exist."),
    "K3C502": ("error", "Claims follow from each other in a circle."),
    "K3C503": ("error", "A formula's unit is not the claim's unit."),
    "K3C504": ("error", "A claim is bound to a retracted artifact."),
    "K3C505": ("error", "The source no longer contains the claim's anchor."),
    "K3C506": ("error", "A check can no longer fail."),
    "K3C507": ("error", "The ledger is malformed."),
}


def rule_text(code: str) -> str:
    """What a rule code means, in one sentence."""
    return RULES[code][1]
