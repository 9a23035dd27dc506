"""A small store, schema and producers that the store's tests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k3repro.store import Artifact, Column, Header, Schema, Store, Table, derivation

REQUESTS = Schema(
    [
        Table(
            "requests",
            [
                Column("request_id", "VARCHAR"),
                Column("wall_s", "DOUBLE", "s"),
                Column("tokens", "INT64", "tokens"),
                Column("text", "VARCHAR"),
                Column("fingerprint", "VARCHAR"),
            ],
        )
    ]
)
LAW = Schema([Table("law", [Column("id", "VARCHAR"), Column("slope", "DOUBLE", "s")], key=("id",))])
HEADER = Header(
    "osl-sweep",
    "twin:mi325x",
    "probe",
    "k3repro.units.stats:quantile",
    {"osl": [16, 32], "seed": 7},
    clock="virtual",
)


@derivation(name="mean-wall", schema=LAW)
def mean_wall(inputs: Sequence[Artifact], *, scale: float = 1.0) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The mean wall time of all requests of all inputs."""
    walls = [
        row["wall_s"] for artifact in inputs for row in artifact.rows("requests") if row["wall_s"] is not None
    ]
    return {"law": [{"id": "mean", "slope": scale * sum(walls) / len(walls)}]}


def request_rows(n: int, wave: str = "w", mark: str = "k3repro-twin/1") -> list[dict[str, Any]]:
    """`n` request rows; every third has no wall time."""
    return [
        {
            "request_id": f"{wave}-{i:04d}",
            "wall_s": None if i % 3 == 2 else 0.25 * i,
            "tokens": i,
            "fingerprint": mark,
        }
        for i in range(n)
    ]


def seal_sweep(store: Store, n: int = 8, header: Header = HEADER, mark: str = "k3repro-twin/1") -> Artifact:
    """Seal a sweep of `n` requests."""
    run = store.begin(header, REQUESTS)
    for wave in ("a", "b"):
        if wave not in run.waves:
            run.commit(wave, {"requests": request_rows(n // 2, wave, mark)})
    return run.seal()
