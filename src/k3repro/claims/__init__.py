"""Ledgers of claims and their audit: numbers against arithmetic and artifacts (docs/claims.md)."""

from k3repro.claims._audit import VERDICTS, Backing, Step, Verdict, audit_ledger, headline
from k3repro.claims._claim import Binding, Claim, Ledger, Premise, Relation, Rule
from k3repro.claims._coverage import Coverage, coverage
from k3repro.claims._diff import Change, diff_ledgers, diff_sources
from k3repro.claims._export import export_report
from k3repro.claims._extract import Draft, Known, draft_ledger, identity_of
from k3repro.claims._formula import Measure, parse_formula
from k3repro.claims._ledger import LedgerError, read_ledger, read_ledger_text
from k3repro.claims._library import Audit, Library, StoreSource
from k3repro.claims._record import audit_of_claims, seal_audits
from k3repro.claims._render import audit_json, audit_lines, tree_lines, verdict_json
from k3repro.claims._rules import RULES, rule_text
from k3repro.claims._sarif import sarif
from k3repro.claims._skeleton import Skeleton, build_skeleton, read_skeleton, write_skeleton
from k3repro.claims._source import Source, read_source, source_from_text
from k3repro.printed import DECISION_WIDTH, HEDGES, NON_CLAIM_SHARE, Numeral, Span, numerals

__all__ = [
    "DECISION_WIDTH",
    "HEDGES",
    "NON_CLAIM_SHARE",
    "RULES",
    "VERDICTS",
    "Audit",
    "Backing",
    "Binding",
    "Change",
    "Claim",
    "Coverage",
    "Draft",
    "Known",
    "Ledger",
    "LedgerError",
    "Library",
    "Measure",
    "Numeral",
    "Premise",
    "Relation",
    "Rule",
    "Skeleton",
    "Source",
    "Span",
    "Step",
    "StoreSource",
    "Verdict",
    "audit_json",
    "audit_ledger",
    "audit_lines",
    "audit_of_claims",
    "build_skeleton",
    "coverage",
    "diff_ledgers",
    "diff_sources",
    "draft_ledger",
    "export_report",
    "headline",
    "identity_of",
    "numerals",
    "parse_formula",
    "read_ledger",
    "read_ledger_text",
    "read_skeleton",
    "read_source",
    "rule_text",
    "sarif",
    "seal_audits",
    "source_from_text",
    "tree_lines",
    "verdict_json",
    "write_skeleton",
]
