"""k3repro's own pages over somebody's artifacts: what a built page should say, as an outline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from k3repro.errors import K3Error
from k3repro.report._glossary import Term, load_glossary
from k3repro.report._outline import Outline, extensions, outline_of_template
from k3repro.report._page_per_row import Instance, instances
from k3repro.report._pages import Page, Shipped
from k3repro.report._site import Site
from k3repro.report._sources import Sources

__all__ = ["OwnPages"]


@dataclass(frozen=True)
class OwnPages:
    """The pages that a site's templates make of some artifacts, by the name of their HTML."""

    site: Site
    items: dict[str, Instance]
    used: dict[str, dict[str, Any]]
    terms: list[Term]

    @classmethod
    def of(cls, site: Site, sources: Sources) -> OwnPages:
        """Those of a site.

        Raises:
            K3Error: its templates ask for what the artifacts do not give.
        """
        made = instances(site.templates(), sources)
        items = {f"{item.name.removesuffix('.md')}.html": item for item in made}
        return cls(site, items, extensions(site), load_glossary(site.root, sources.grammar))

    def unlike(self, name: str, outline: Outline, sources: Sources) -> dict[str, Outline | str]:
        """By its name, the outline that a page should have and has not; or why it cannot be made."""
        item = self.items.get(name)
        if item is None:
            return {}
        page = Page(item.name, self.site, sources, Shipped(), template=item.template, row=item.row)
        try:
            expected = outline_of_template(page, item, self.used, self.terms)
        except K3Error as error:
            return {name: error.what}
        return {} if expected == outline else {name: expected}
