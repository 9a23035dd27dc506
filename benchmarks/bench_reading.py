"""Reading published tables: how often a true table raises a finding, and how often a falsified one does.

Tables come from a closed queueing loop (tests/claims/reading_tables.py); `p99 spread` is how much the ratio
of p99 to mean differs between levels, either way. The reading assumes a tenth: rows above 5 % leave what it
assumes. Run: python benchmarks/bench_reading.py [TABLES]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "claims"))

from reading_tables import MUTATIONS, cells, draw, short_requests, table

from k3repro.studies.node._contradictions import contradictions
from k3repro.studies.node._in_flight import infer

SPREADS = (0.0, 0.02, 0.05, 0.1, 0.2)
NOISE = 0.01


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    heads = [f"recall: {name}" for name in MUTATIONS]
    print(f"{count} tables of 7 levels each, rates with 1 % noise")
    print(" | ".join(["p99 spread", "true tables with a finding", *heads, "precision, one false in two"]))
    for spread in SPREADS:
        false = sum(bool(_kinds(_true(seed, spread))) for seed in range(count))
        recalls = [
            sum(
                kind in _kinds(ladder)
                for ladder, kind in (make(s, wobble=spread, noise=NOISE) for s in range(count))
            )
            / count
            for make in MUTATIONS.values()
        ]
        hits = sum(recalls) / len(recalls)
        precision = hits / (hits + false / count) if hits + false else 0.0
        cols = [f"{spread:.0%}", f"{false / count:.1%}", *(f"{r:.1%}" for r in recalls), f"{precision:.1%}"]
        print(" | ".join(cols))


def by_size(count: int) -> None:
    print("\nrequests shorter than stated by | found (p99 spread 2 %)")
    for cut in (0.1, 0.2, 0.3, 0.4, 0.5):
        found = sum(
            "length" in _kinds(short_requests(seed, cut=cut, wobble=0.02)[0]) for seed in range(count)
        )
        print(f"{cut:.0%} | {found / count:.1%}")


def _true(seed: int, spread: float):
    truth = draw(seed, wobble=spread, noise=NOISE)
    return table(truth, cells(truth, seed))


def _kinds(ladder) -> set[str]:
    return {item.kind for item in contradictions(infer(ladder), [])}


if __name__ == "__main__":
    main()
    by_size(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
