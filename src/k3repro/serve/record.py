"""Serve records: which bring-up a probe talked to, what it says of itself, the evidence that it is real."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from k3repro.serve.health import health
from k3repro.serve.metrics import Metrics, parse_metrics

_ENGINE_METRIC = "vllm:num_requests_running"
_CONFIG_METRIC = "vllm:cache_config_info"
_START_METRIC = "process_start_time_seconds"


def facts(
    answers: Mapping[str, str | None],
    *,
    target: str = "",
    evidence: Iterable[Mapping[str, str]] = (),
    startup_lines: Iterable[str] = (),
    **known: Any,
) -> dict[str, Any]:
    """The facts of a serve, from what its endpoints answered.

    `answers` maps ``/version``, ``/v1/models``, ``/metrics``, ``/health`` to the body, None where there was
    none; `evidence` is what the client saw (`client.evidence_of`), `startup_lines` recognised lines of engine
    logs, `known` anything else that makes this serve this one. What nobody reported is absent, never guessed.

    Returns:
        ``id``, ``target``, ``engine``, ``models``, ``config``, ``started`` (Unix seconds, where reported),
        ``health``, and ``evidence``: a list of ``{"kind", "value"}`` from which `store.tier_of` works the
        tier out.
    """
    version, models = _json(answers.get("/version")), _json(answers.get("/v1/models"))
    metrics = parse_metrics(answers.get("/metrics") or "")
    found: dict[str, Any] = {"target": target, "engine": version, "models": _models(models), **known}
    found["config"] = _config(models, metrics)
    started = metrics.largest(_START_METRIC)
    lines = [{"kind": "startup_lines", "value": line} for line in startup_lines]
    return {
        "id": _identity(found, metrics),
        **found,
        **({} if started is None else {"started": started}),
        "health": health(metrics, answers.get("/health")).as_dict(),
        "evidence": [*map(dict, evidence), *lines],
    }


def _json(body: str | None) -> dict[str, Any]:
    try:
        value = json.loads(body) if body else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _models(models: Mapping[str, Any]) -> list[str]:
    entries = models.get("data")
    return (
        [str(entry.get("id")) for entry in entries if isinstance(entry, dict)]
        if isinstance(entries, list)
        else []
    )


def _config(models: Mapping[str, Any], metrics: Metrics) -> dict[str, Any]:
    """The resolved configuration as far as the engine prints it."""
    config: dict[str, Any] = dict(metrics.labels(_CONFIG_METRIC))
    entries = models.get("data")
    first = entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else {}
    if isinstance(first.get("max_model_len"), int):
        config["max_model_len"] = first["max_model_len"]
    ranks = {sample.labels.get("engine") for sample in metrics.named(_ENGINE_METRIC)} - {None}
    if ranks:
        config["engines"] = len(ranks)
    return config


def _identity(found: Mapping[str, Any], metrics: Metrics) -> str:
    """A serve is one bring-up: another start time, version or configuration is another serve."""
    seen = [found, metrics.largest(_START_METRIC)]
    return f"serve-{hashlib.sha256(json.dumps(seen, sort_keys=True, default=str).encode()).hexdigest()[:12]}"
