"""The audit's own test: printed numbers are changed, and the audit must notice."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from k3repro.claims import Library, read_ledger_text
from k3repro.claims._mutate import KINDS, decidable, mutate, study

from claims_ledgers import ledger_text  # isort: skip

ROOT = Path(__file__).resolve().parents[2] / "artifacts"


@pytest.fixture(scope="module")
def ledgers():
    library = Library(ROOT)
    return [library.ledger(name) for name in library.names()]


@pytest.fixture(scope="module")
def mutants(ledgers):
    """Three studies of 300 draws each, with the first seeds there are."""
    return [study(ledgers, 300, seed) for seed in (1, 2, 3)]


def test_half_of_the_table_numerals_are_decidable(ledgers):
    inside = total = 0
    for ledger in ledgers:
        known, at = decidable(ledger), {claim.place: claim.id for claim in ledger.claims.values()}
        cells = [place for place in ledger.tokens if re.search(r"/t\d+\.r", place)]
        inside += sum(at.get(place, "") in known for place in cells)
        total += len(cells)
    assert total > 400 and inside / total >= 0.5


def test_what_is_decidable_is_caught(mutants):
    pooled = [m for found in mutants for m in found.mutants]
    tables = [m for m in pooled if m.table and m.decidable]
    assert len(tables) > 100 and sum(m.caught for m in tables) / len(tables) >= 0.95
    clear = [m for m in pooled if m.decidable]
    assert sum(m.caught for m in clear) / len(clear) >= 0.95


def test_recall_over_everything_printed(mutants):
    assert all(found.recall() >= 0.70 for found in mutants)
    kinds = Counter(m.kind for found in mutants for m in found.mutants)
    assert set(kinds) == set(KINDS)


def test_draws_are_numerals_of_the_documents_and_repeatable(ledgers, mutants):
    places = {place for ledger in ledgers for place in ledger.tokens}
    assert all(m.place in places for m in mutants[0].mutants)
    assert study(ledgers, 20, 7) == study(ledgers, 20, 7)


def test_nothing_is_caught_when_nothing_checks():
    """A ledger without relations is blind; the study must say so."""
    ledger = read_ledger_text(ledger_text(*(f'id = "c{n}", printed = "{n * 137}"' for n in range(1, 30))))
    assert study([ledger], 20, 1).recall() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_changes_something_or_does_not_apply(kind):
    ledger = read_ledger_text(
        ledger_text(
            'id = "a", printed = "84.2", unit = "GiB", hedge = "about"',
            'id = "b", printed = "53.3", unit = "GiB"',
        )
    )
    claim = ledger.claims["a"]
    changed = mutate(ledger, claim, kind, random.Random(1))
    assert changed and any(new != ledger.claims[new.id] for new in changed)
