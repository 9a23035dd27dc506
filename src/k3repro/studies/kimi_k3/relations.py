"""relation@amd-di-kimi-k3: how each printed cell stands to the twin, and to what is set to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from k3repro.errors import InputError
from k3repro.relation import Cell, Follows, Related, relation_rows
from k3repro.store import Artifact, Rows, Schema, cell_key, derivation, reads_of
from k3repro.studies.kimi_k3.calibration import calibrate

__all__ = ["PREDICTOR", "relate", "relations"]

PREDICTOR = "twin"


@derivation(name="relation", schema=Schema((Related.TABLE,)))
def relations(inputs: Sequence[Artifact]) -> Rows:
    """Relations of all printed cells of the inputs to the twin: which ones its calibration reads is watched.

    Raises:
        InputError: an input that the calibration needs is missing, or one that is no transcription.
    """
    if others := [artifact.name for artifact in inputs if artifact.tier != "published"]:
        raise InputError(f"{others[0]} is not printed", fix="Give transcriptions only.")
    follows = [item for artifact in inputs for item in _follows(artifact)]
    return {"relation": relation_rows({PREDICTOR: reads_of(calibrate, inputs)}, inputs, follows)}


def relate(cells: Iterable[dict[str, Any]], relation: Artifact) -> None:
    """Give cells of twin-fidelity what `relation` says of the printed cell each stands for."""
    rows = {
        (row["table"], row["key"], row["column"]): row
        for row in relation.rows("relation")
        if row["predictor"] == PREDICTOR
    }
    for cell in cells:
        row = rows[_printed(cell)]
        ours = cell["quantity"] == "in_tokens_per_s"  # total less output, printed nowhere
        cell |= {
            "relation": row["relation"],
            "follows": "classes, total less output" if ours else row["follows"],
            "counts": row["counts"] and not ours,
        }


_TABLES = {
    "Table 3": "latency", "Table 4": "slots", "Table 5": "classes", "Table 7": "replays",
    "The Concurrency Envelope": "envelope", "Long waves, in the text": "waves",
}  # fmt: skip


def _printed(cell: Mapping[str, Any]) -> tuple[str, str, str]:
    """Table, key and column of the transcription that a cell of twin-fidelity was taken from."""
    table, platform, quantity = _TABLES[cell["source"]], cell["platform"], cell["quantity"]
    words = cell["cell"].replace("con ", "").replace("MAX_NUM_SEQS ", "").split(", ")
    if table == "envelope":
        return table, f"{platform}/{words[0]}/{quantity}", "value"
    keys = {
        "latency": [platform, *words], "slots": words, "classes": [words[0], platform],
        "replays": [platform, *words], "waves": words,
    }  # fmt: skip
    column = "total_tokens_per_s" if quantity == "in_tokens_per_s" else quantity
    return table, "/".join(keys[table]), column


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
    """One request is a point of the printed law; ratios are to it; a rate may stand in Table 4 as well."""
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
            key = cell_key(table, row)
            cell = (source, "replays", key, "itl_p50_ms")
            yield Follows(cell, _law(source, row["platform"], "k_s_per_token", decode=decode))
