"""What an engine printed at its start, sealed as a bring-up, and what the block law says of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from k3repro.capacity import Engine, block_law, check_startup, parse_version
from k3repro.client import open_target
from k3repro.errors import InputError
from k3repro.probes._run import serve_facts
from k3repro.serve.lines import parse_kv_lines
from k3repro.spec import Model, model_from
from k3repro.store import Artifact, Col, Header, Row, Rows, Schema, Store, derivation

_STATE_DTYPE = re.compile(r"Reset SSM cache type to (\w+)|Using (\w+) SSM state storage")


class StartLine(Row, table="lines", key=("position",)):
    """Recognised lines of the engine's start-up log, each once."""

    position: int
    line: Annotated[str | None, Col(doc="a fact line of the start-up log")]


class StartPool(Row, table="pools", key=("pool",)):
    """The KV line of each pool."""

    pool: int
    device: Annotated[str | None, Col(doc="as the line names it")]
    tokens: Annotated[int | None, Col("tokens", "as printed")]
    max_model_len: Annotated[int | None, Col("tokens")]
    concurrency: Annotated[float | None, Col(doc="requests of max_model_len, as printed")]


class StartupLaw(Row, table="law", key=("pool",)):
    """The block law beside the engine's own numbers."""

    pool: int
    block_tokens: Annotated[int | None, Col("tokens", "of the attention group, by the law")]
    pool_blocks: Annotated[int | None, Col("blocks", "by the law, of the pool that was asked for")]
    printed_tokens: Annotated[int | None, Col("tokens")]
    predicted_tokens: Annotated[int | None, Col("tokens")]
    printed_concurrency: float | None
    predicted_concurrency: float | None
    same: Annotated[bool | None, Col(doc="the law prints exactly these numbers for this pool")]
    reasons: list[str] | None


def seal_start(
    store: Store,
    target: str,
    *,
    lines: Sequence[str],
    config: Mapping[str, Any],
    launch: Mapping[str, Any],
    name_as: str = "",
    hardware: str = "",
) -> Artifact:
    """Seal what an engine printed at start: `lines` of its log, the model's `config`, and the `launch`.

    `launch` names `flags` and what the block law needs: `pool_bytes`, `prefix_caching`, `block_size`,
    `kernel_block`, and `kv_dtype` or `backend` where they are not the default. `name_as` and `hardware` name
    the serve as in `run_probe`. Tier `measured` follows from the evidence, as everywhere.

    Raises:
        InputError: the lines hold no KV cache size.
    """
    pools = parse_kv_lines(lines)
    if not pools:
        raise InputError(
            "no KV cache size among the start-up lines", fix="Give the engine's log from its start."
        )
    with open_target(target, name=name_as, hardware=hardware) as opened:
        serve = serve_facts(opened) | ({"platform": hardware} if hardware else {})
        subject, clock = opened.subject, opened.clock
    serve["evidence"] += [{"kind": "startup_lines", "value": line} for line in lines]
    header = Header(
        "engine-start", subject, "bring-up", f"{__name__}:seal_start",
        parameters={"config": dict(config), "launch": dict(launch)}, serve=serve, clock=clock,
    )  # fmt: skip
    with store.begin(header, Schema((StartLine.TABLE, StartPool.TABLE))) as run:
        rows = [StartLine(position=index, line=line) for index, line in enumerate(lines)]
        found = [
            StartPool(
                pool=index, device=pool.device, tokens=pool.tokens,
                max_model_len=pool.max_model_len, concurrency=pool.concurrency,
            )
            for index, pool in enumerate(pools)
        ]  # fmt: skip
        run.commit("start", {"lines": rows, "pools": found})
        return run.seal({"ok": True, "reasons": []})


@derivation(name="startup-law", schema=Schema((StartupLaw.TABLE,)))
def startup_law(inputs: Sequence[Artifact]) -> Rows:
    """The block law's prediction of the KV line of a sealed engine start.

    Raises:
        InputError: not exactly one engine start.
    """
    if len(inputs) != 1 or inputs[0].name != "engine-start":
        raise InputError("one engine-start artifact is needed")
    start = inputs[0]
    launch = start.parameters["launch"]
    law = block_law(model_of_start(start), engine_of_start(start))
    rows = []
    for pool in start.rows("pools"):
        check = check_startup(
            law, tokens=pool["tokens"], max_model_len=pool["max_model_len"],
            concurrency=pool["concurrency"], kv_bytes=launch["pool_bytes"],
        )  # fmt: skip
        rows.append(StartupLaw(
            pool=pool["pool"], block_tokens=law.block_tokens,
            pool_blocks=law.pool_blocks(launch["pool_bytes"]), printed_tokens=check.printed_tokens,
            predicted_tokens=check.predicted_tokens, printed_concurrency=check.printed_concurrency,
            predicted_concurrency=check.predicted_concurrency, same=check.agrees,
            reasons=list(check.reasons),
        ))  # fmt: skip
    return {"law": rows}


def engine_of_start(start: Artifact) -> Engine:
    """The engine that started, as far as the block law depends on it; its lines tell what it chose itself."""
    launch = start.parameters["launch"]
    version = str(start.serve["engine"]["version"]).partition("+")[0]
    return Engine(
        version=parse_version(version), prefix_caching=launch["prefix_caching"],
        block_size=launch["block_size"], kernel_block=launch.get("kernel_block"),
        kv_dtype=launch.get("kv_dtype", "auto"), backend=launch.get("backend"),
        ssm_dtype=_state_dtype(row["line"] for row in start.rows("lines")),
    )  # fmt: skip


def _state_dtype(lines: Iterable[str]) -> str:
    """The recurrent state's type: on a CPU the engine decides it by the instructions the processor has."""
    told = (match for line in lines if (match := _STATE_DTYPE.search(line)))
    return next((match[1] or match[2] for match in told), "auto")


def model_of_start(start: Artifact) -> Model:
    """The model that was served, from the configuration sealed with its start."""
    return model_from(start.parameters["config"])
