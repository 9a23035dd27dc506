"""Values, tables, figures and pages: a number reaches a page only bound to a query and its artifacts."""

from __future__ import annotations

from k3repro.report import show
from k3repro.report._audit import SiteAudit, audit_site
from k3repro.report._build import BuildReport, build_site
from k3repro.report._finding import Finding
from k3repro.report._queries import ColumnSpec, Query, load_queries, parse_query
from k3repro.report._serve import serve_folder
from k3repro.report._site import Site
from k3repro.report._sources import Queryable, Result, Sources
from k3repro.report._within import audit_within

__all__ = [
    "BuildReport",
    "ColumnSpec",
    "Finding",
    "Query",
    "Queryable",
    "Result",
    "Site",
    "SiteAudit",
    "Sources",
    "audit_site",
    "audit_within",
    "build_site",
    "load_queries",
    "parse_query",
    "serve_folder",
    "show",
]
