"""serve adopt: a serve record from a bare router URL, so that somebody with only a URL can start in a minute.

What nobody reports stays unknown. Log lines are matched against the grammar of start-up lines; the rest
of a log is not read into the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from k3repro.client import open_target, parse_target, place_mark
from k3repro.errors import InputError
from k3repro.probes.serve_facts import serve_facts
from k3repro.serve import parse_metrics
from k3repro.serve.lines import parse_kv_lines
from k3repro.store import Artifact, Col, Header, Row, Schema, Store

NAME = "serve-record"
UNKNOWN = "unknown"
_MOST_LOG = 256 * 1024 * 1024
_TELLING = (
    "KV cache size:",
    "Maximum concurrency for",
    "AITER_MXFP4",
    "Requantizing Kimi-K3",
    "Add Prefill",
    "Add Decode",
)


class Fact(Row, table="facts", key=("fact",)):
    """What a serve reported of itself."""

    fact: str
    value: Annotated[str | None, Col(doc="unknown where nobody reported it")]
    source: Annotated[str | None, Col(doc="which endpoint or log said so")]


SCHEMA = Schema((Fact.TABLE,))


def adopt(
    target: str, *, store: Store, logs: Sequence[Path] = (), model: str | None = None, name_as: str = "",
    hardware: str = "",
) -> Artifact:  # fmt: skip
    """Ask a running serve who it is, read start-up lines out of its logs, and seal the record.

    Raises:
        TargetError: nothing answers there, or it does not name its model and `model` does not either.
        InputError: a log that cannot be read.
    """
    lines = [line for path in logs for line in _telling(path)]
    with open_target(target, model=model, name=name_as, hardware=hardware) as opened:
        serve = serve_facts(opened) | ({"platform": hardware} if hardware else {})
        metrics = opened.run(lambda it: it.fetch("/metrics")).text
        clock, served, subject = opened.clock, opened.model, opened.subject
    serve["evidence"] = [
        *serve["evidence"],
        *({"kind": "startup_lines", "value": line} for line in lines[:20]),
    ]
    rows = _rows(serve, served, metrics, lines)
    header = Header(
        NAME, subject, "bring-up", "k3repro.probes.adopt:adopt", {"logs": len(logs)}, serve=serve, clock=clock
    )
    with store.begin(header, SCHEMA) as run:
        run.serve.update(serve)
        run.commit("facts", {"facts": rows})
        return run.seal({"ok": serve["health"]["ok"], "reasons": list(serve["health"]["reasons"])})


def adopted(store: Store, target: str = "") -> list[Artifact]:
    """The serve records there are, oldest first; those of a URL, a twin or a subject where one is given."""
    if "://" not in target:
        return store.artifacts(name=NAME, subject=target or None)
    place = place_mark(parse_target(target).where)
    return [record for record in store.artifacts(name=NAME) if record.serve.get("place") == place]


def _telling(path: Path) -> list[str]:
    """The lines of a log that say something; a log is read line by line, however long."""
    try:
        if path.stat().st_size > _MOST_LOG:
            raise InputError("a log of more than 256 MiB", where=str(path.name), fix="Give its first part.")
        with path.open(encoding="utf-8", errors="replace") as stream:
            return [line.strip()[-300:] for line in stream if any(word in line for word in _TELLING)]
    except OSError as error:
        raise InputError(f"the log cannot be read: {error.strerror}", where=path.name) from None


def _rows(serve: dict[str, Any], model: str, metrics: str, lines: Sequence[str]) -> list[Fact]:
    config, health = serve["config"], serve["health"]
    started = parse_metrics(metrics).largest("process_start_time_seconds")
    found = {
        "serve": (serve["id"], "all of them"),
        "model": (model, "/v1/models"),
        "engine version": (serve["engine"].get("version"), "/version"),
        "started": (datetime.fromtimestamp(started, UTC).isoformat() if started else None, "/metrics"),
        "max_model_len": (config.get("max_model_len"), "/v1/models"),
        "KV blocks": (config.get("num_gpu_blocks"), "/metrics"),
        "block size": (config.get("block_size"), "/metrics"),
        "prefix caching": (config.get("enable_prefix_caching"), "/metrics"),
        "engines": (config.get("engines"), "/metrics"),
        "running": (health["running"], "/metrics"),
        "waiting": (health["waiting"], "/metrics"),
        "preemptions": (health["preemptions"], "/metrics"),
        "failed transfers": (health["failed_transfers"], "/metrics"),
    } | _of_logs(lines)
    return [
        Fact(fact=fact, value=UNKNOWN if value in (None, "") else str(value), source=source)
        for fact, (value, source) in found.items()
    ]


def _of_logs(lines: Sequence[str]) -> dict[str, tuple[Any, str]]:
    pools = parse_kv_lines(
        line for line in lines if "KV cache size:" in line or "Maximum concurrency" in line
    )
    tokens = sorted({pool.tokens for pool in pools})
    kernel = [line for line in lines if "AITER_MXFP4" in line or "Requantizing Kimi-K3" in line]
    return {
        "KV tokens printed": (" ".join(map(str, tokens)) or None, "logs"),
        "pools printed": (len(pools) or None, "logs"),
        "expert kernel line": (kernel[0] if kernel else None, "logs"),
    }
