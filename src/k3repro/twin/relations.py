"""relation@amd-di-kimi-k3: how every printed cell of the study stands to the twin, and to what fits nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.relation import RELATION_TABLE, Cell, Follows, relation_rows
from k3repro.store import READ_CELLS, Artifact, Schema, derivation

__all__ = ["relations"]

OSL = 256
"""Reply length of the printed envelope and of both slot ceilings."""


@derivation(name="relation", schema=Schema((RELATION_TABLE,)))
def relations(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Relations of all printed cells among the inputs to the inputs that were set to some of them.

    Raises:
        InputError: no input says what it was set to.
    """
    fitted = [artifact for artifact in inputs if READ_CELLS in artifact.schema.tables]
    printed = [artifact for artifact in inputs if artifact.tier == "published"]
    if not fitted:
        raise InputError("nothing among the inputs was set to printed cells", fix="Give twin-calibration.")
    used = {f"{artifact.name}@{artifact.subject}": _used(artifact) for artifact in fitted}
    follows = [item for artifact in printed for item in _follows(artifact)]
    return {"relation": relation_rows(used, printed, follows)}


def _used(artifact: Artifact) -> list[Cell]:
    return [(r["source"], r["table"], r["key"], r["column"]) for r in artifact.rows(READ_CELLS.name)]


def _follows(artifact: Artifact) -> Iterator[Follows]:
    """The arithmetic between printed cells of one transcription."""
    source = f"{artifact.name}@{artifact.subject}"
    if artifact.name == "published-decode":
        yield from _envelope(source, artifact)
        yield from _rates(source, artifact)
    elif artifact.name == "published-agentic":
        yield from _alone(source, artifact)


def _law(source: str, platform: str, *columns: str, decode: str = "") -> tuple[Cell, ...]:
    return tuple((decode or source, "wall_law", platform, column) for column in columns)


def _envelope(source: str, artifact: Artifact) -> Iterator[Follows]:
    """One request is a point of the printed law; ratios are to it; a rate may stand in the slots table too."""
    slots = {(row["concurrency"], row["out_tokens_per_s"]): row for row in artifact.rows("slots")}
    for row in artifact.rows("envelope"):
        platform, quantity, concurrency = row["platform"], row["quantity"], row["concurrency"]
        cell = (source, "envelope", f"{platform}/{concurrency}/{quantity}", "value")
        rate = (source, "envelope", f"{platform}/{concurrency}/throughput", "value")
        again = slots.get((concurrency, row["value"]))
        if concurrency == 1 and quantity == "wall":
            yield Follows(cell, _law(source, platform, "c0_s", "k_s_per_token"))
        elif quantity in ("wall_over_floor", "throughput_over_single"):
            yield Follows(cell, (rate, (source, "envelope", f"{platform}/1/wall", "value")))
        elif quantity == "throughput" and platform == "mi300x" and again is not None:
            key = f"{again['concurrency']}/{again['max_num_seqs']}"
            yield Follows(cell, ((source, "slots", key, "out_tokens_per_s"),))


def _rates(source: str, artifact: Artifact) -> Iterator[Follows]:
    """A rate of Table 3 is its wave over its times; a total of Table 5 is its output rate and its shape."""
    for row in artifact.rows("latency"):
        key = f"{row['platform']}/{row['concurrency']}"
        times = tuple((source, "latency", key, name) for name in ("ttft_p99_s", "tpot_ms"))
        yield from (
            Follows((source, "latency", key, name), times)
            for name in ("out_tokens_per_s", "total_tokens_per_s")
            if name in row
        )
    for row in artifact.rows("classes"):
        key = f"{row['class']}/{row['platform']}"
        out = (source, "classes", key, "out_tokens_per_s")
        yield Follows((source, "classes", key, "total_tokens_per_s"), (out,))
    for row in artifact.rows("wall_law"):
        slope = _law(source, row["platform"], "k_s_per_token")
        yield Follows((source, "wall_law", row["platform"], "k_ms_per_token"), slope)


def _alone(source: str, artifact: Artifact) -> Iterator[Follows]:
    """One user alone waits between tokens for what the printed law says a token costs."""
    decode = source.replace("published-agentic", "published-decode")
    table = artifact.schema.table("replays")
    for row in artifact.rows("replays"):
        if row["concurrency"] == 1:
            key = "/".join(str(row[name]) for name in table.key)
            cell = (source, "replays", key, "itl_p50_ms")
            yield Follows(cell, _law(source, row["platform"], "k_s_per_token", decode=decode))
