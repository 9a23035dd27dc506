"""Where ledgers and skeletons lie: `claims` and `skeletons` of each study under a store's `publications`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.claims._artifacts import backer
from k3repro.claims._audit import Verdict, audit_ledger
from k3repro.claims._claim import Ledger
from k3repro.claims._coverage import Coverage, coverage, require_anchors
from k3repro.claims._ledger import LedgerError, read_ledger
from k3repro.claims._skeleton import Skeleton, build_skeleton, read_skeleton
from k3repro.claims._source import read_source
from k3repro.errors import InputError
from k3repro.store import Store

__all__ = ["Audit", "Library", "StoreSource"]


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything one audit of one document found."""

    ledger: Ledger
    verdicts: tuple[Verdict, ...]
    coverage: Coverage
    source_problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """No contradiction and nothing uncovered."""
        clean = not self.coverage.problems and not self.source_problems
        return clean and all(verdict.verdict != "contradicted" for verdict in self.verdicts)


class StoreSource:
    """A store as the audit's source of artifacts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalog = store.catalog()

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self._catalog.query(sql)

    def withdrawn(self) -> Mapping[str, str]:
        return {
            seal: str(getattr(entry, "reason", entry))
            for seal, entry in self._store.state().withdrawn().items()
        }


class Library:
    """The ledgers under a store's `publications` folder, read once each."""

    def __init__(self, root: Path) -> None:
        self.root = root / "publications"
        self._read: dict[Path, Ledger] = {}

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.root.glob("**/claims/*.toml"))

    def _file(self, place: str) -> Path:
        """A file of the library (`claims/ID.toml`), in the folder of whichever study has it."""
        return next(iter(sorted(self.root.glob(f"**/{place}"))), self.root / place)

    def ledger(self, name: str | Path) -> Ledger:
        """A ledger by id (`amd-di-kimi-k3`) or path.

        Raises:
            InputError: no such ledger.
        """
        path = Path(name)
        if path.suffix != ".toml":
            path = self._file(f"claims/{name}.toml")
        if not path.is_file():
            known = ", ".join(self.names()) or "none"
            raise InputError(
                f"there is no ledger {str(name)!r}", where=str(path), fix=f"Ledgers here: {known}."
            )
        if path not in self._read:
            self._read[path] = read_ledger(path)
        return self._read[path]

    def of_source(self, source: Path) -> str:
        """The id of the ledger whose document this file is, by its SHA-256.

        Raises:
            InputError: no ledger is about these bytes.
        """
        sha256 = read_source(source).sha256
        for name in self.names():
            if self.ledger(name).sha256 == sha256:
                return name
        raise InputError(
            "no ledger here is about this file", where=str(source), fix="Name the ledger before --source."
        )

    def has_bindings(self, name: str | Path) -> bool:
        """Whether any claim of a ledger is bound to artifacts."""
        return any(claim.bindings for claim in self.ledger(name).claims.values())

    def skeleton(self, ledger: Ledger) -> Skeleton:
        """The skeleton of a ledger's source: beside the ledger, or in the library."""
        beside = Path(ledger.path).with_suffix(".skeleton.json")
        return read_skeleton(beside if beside.is_file() else self._file(f"skeletons/{ledger.id}.json"))

    def audit(
        self, name: str | Path, *, source: Path | None = None, artifacts: StoreSource | None = None
    ) -> Audit:
        """Audit a ledger: coverage against its skeleton, arithmetic, primary source, artifacts.

        Raises:
            LedgerError: the ledger is wrong, or the source no longer contains a claim's anchor.
        """
        ledger = self.ledger(name)
        primary = self._primary(ledger)
        problems: tuple[str, ...] = ()
        if source is not None:
            text = read_source(source)
            skeleton = self._known_skeleton(ledger) or build_skeleton(ledger.id, text)
            require_anchors(ledger, skeleton, text)
            problems = tuple(skeleton.matches(text))
        else:
            skeleton = self.skeleton(ledger)
        covered = coverage(ledger, skeleton)
        verdicts = audit_ledger(ledger, primary=primary, back=backer(artifacts) if artifacts else None)
        return Audit(ledger, tuple(verdicts), covered, problems)

    def _known_skeleton(self, ledger: Ledger) -> Skeleton | None:
        try:
            return self.skeleton(ledger)
        except InputError as error:
            if "cannot be read" in error.what:
                return None
            raise

    def _primary(self, ledger: Ledger) -> Ledger | None:
        if not ledger.primary:
            return None
        try:
            return self.ledger(ledger.primary)
        except LedgerError:
            raise
        except InputError as error:
            raise LedgerError(
                f"names the primary source {ledger.primary!r}, which has no ledger [K3C501]",
                where=ledger.path,
                fix=error.fix,
                code="K3C501",
            ) from None
