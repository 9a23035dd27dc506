"""The audit of claims: how long it takes, and what it would notice.

Times are the best of five; the peer is the lexer alone over as many numerals (reading without judging).
The mutation study draws numerals uniformly from all documents and changes each once; the first seeds are
printed, none left out.

    python benchmarks/bench_claims.py [--draws 300] [--seeds 5]
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from k3repro.claims import Library, audit_ledger, numerals
from k3repro.claims._mutate import KINDS, Mutant, decidable, study

ROOT = Path(__file__).resolve().parents[1] / "artifacts"
PRIMARY = "amd-di-kimi-k3"


def best(function: Callable[[], object], times: int = 5) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def timings() -> list[tuple[str, str, str]]:
    whole = best(lambda: Library(ROOT).audit(PRIMARY))
    read = best(lambda: Library(ROOT).ledger(PRIMARY))
    ledger = Library(ROOT).ledger(PRIMARY)
    judge = best(lambda: audit_ledger(ledger))
    # eleven thousand words with as many numerals as the document: the tokens of the ledger in filler
    text = " of these words there are ".join(ledger.tokens.values()) + " word" * 4000
    lex = best(lambda: numerals(text))
    return [
        (
            "audit of the primary document: read, check, judge, coverage",
            f"{whole * 1e3:.0f} ms",
            f"{2 / whole:.0f}x under 2 s",
        ),
        ("  reading and checking its ledger", f"{read * 1e3:.0f} ms", f"{read / whole:.0%} of it"),
        (f"  judging {len(ledger.claims)} claims", f"{judge * 1e3:.0f} ms", f"{judge / whole:.0%} of it"),
        (
            f"peer: lexing {len(numerals(text))} numerals in {len(text.split())} words",
            f"{lex * 1e3:.0f} ms",
            f"{whole / lex:.1f}x slower",
        ),
    ]


def share(mutants: list[Mutant]) -> str:
    return f"{sum(m.caught for m in mutants)}/{len(mutants)} = {sum(m.caught for m in mutants) / max(1, len(mutants)):.1%}"  # noqa: E501


def mutation(draws: int, seeds: int) -> list[tuple[str, str, str]]:
    library = Library(ROOT)
    ledgers = [library.ledger(name) for name in library.names()]
    cells = known = 0
    for ledger in ledgers:
        found, at = decidable(ledger), {claim.place: claim.id for claim in ledger.claims.values()}
        places = [place for place in ledger.tokens if re.search(r"/t\d+\.r", place)]
        cells += len(places)
        known += sum(at.get(place, "") in found for place in places)
    rows = [("table numerals that a check pins down", f"{known}/{cells} = {known / cells:.1%}", "bar 50 %")]
    pooled: list[Mutant] = []
    for seed in range(1, seeds + 1):
        mutants = list(study(ledgers, draws, seed).mutants)
        pooled += mutants
        rows.append((f"seed {seed}: caught of all {draws}", share(mutants), _tables(mutants)))
    rows.append((f"all seeds: caught of all {len(pooled)}", share(pooled), ""))
    rows.append(("  on decidable numerals", share([m for m in pooled if m.decidable]), ""))
    rows.append(
        ("  on decidable table numerals", share([m for m in pooled if m.decidable and m.table]), "bar 95 %")
    )
    tally = Counter((m.kind, m.caught) for m in pooled if m.decidable)
    for kind in KINDS:
        hit, missed = tally[kind, True], tally[kind, False]
        rows.append((f"    {kind}", f"{hit}/{hit + missed}", ""))
    return rows


def _tables(mutants: list[Mutant]) -> str:
    return (
        "decidable "
        + share([m for m in mutants if m.decidable])
        + ", tables "
        + share([m for m in mutants if m.decidable and m.table])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows = timings() + mutation(options.draws, options.seeds)
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
