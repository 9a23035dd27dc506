"""What a server shows of itself, as evidence for the tier. Pure functions over response texts.

Kinds: `twin` (a mark of the simulation), `build_info` (the engine's version), `metrics` (the engine's own
counters). The store decides what the evidence is worth (`store.tier_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["TWIN_MARK", "engine_of", "evidence_of", "model_of", "twin_evidence"]

TWIN_MARK = "k3repro-twin"
_FAMILY = re.compile(r"^# TYPE (vllm:[a-z0-9_]+|sglang:[a-z0-9_]+) ", re.MULTILINE)
_ENGINE_FAMILIES = ("vllm:num_requests_running", "vllm:generation_tokens_total", "sglang:num_running_reqs")
_VERSION = re.compile(r"\d+\.\d+[0-9A-Za-z.+\-]*")
_FEWEST_FAMILIES = 10


def evidence_of(answers: Mapping[str, str | None]) -> list[dict[str, str]]:
    """Evidence in the bodies of ``/version``, ``/v1/models`` and ``/metrics`` (None: there was no good
    answer).
    """
    found = []
    for place, text in answers.items():
        if text is not None and TWIN_MARK in text.lower():
            found.append({"kind": "twin", "value": f"{TWIN_MARK} in {place}"})
    metrics = answers.get("/metrics") or ""
    build = _load(answers.get("/version") or "").get("version")
    if isinstance(build, str) and _VERSION.fullmatch(build):
        found.append({"kind": "build_info", "value": build})
    # The twin prints the engine's families under its own mark; they are no evidence of an engine.
    families = set() if TWIN_MARK in metrics.lower() else set(_FAMILY.findall(metrics))
    if len(families) >= _FEWEST_FAMILIES and any(name in families for name in _ENGINE_FAMILIES):
        found.append({"kind": "metrics", "value": f"{len(families)} engine metric families"})
    return found


def engine_of(answers: Mapping[str, str | None]) -> str:
    """``vllm-0.26.0``: the engine and version that answered; empty where it does not say its version."""
    metrics = answers.get("/metrics") or ""
    engine = next((family for family in ("vllm", "sglang") if f"# TYPE {family}:" in metrics), "engine")
    build = _load(answers.get("/version") or "").get("version")
    number = _VERSION.search(build) if isinstance(build, str) else None
    if isinstance(build, str) and TWIN_MARK in build.lower():
        engine = TWIN_MARK
    return f"{engine}-{number.group().partition('+')[0]}" if number else ""


def twin_evidence(fingerprint: str | None) -> dict[str, str] | None:
    """Evidence in the `system_fingerprint` of a stream, which survives every proxy."""
    if fingerprint is None or TWIN_MARK not in fingerprint.lower():
        return None
    return {"kind": "twin", "value": f"{TWIN_MARK} in system_fingerprint"}


def model_of(models: str) -> str | None:
    """The first model `/v1/models` lists."""
    data = _load(models).get("data")
    if not isinstance(data, list) or not data or not isinstance(data[0], dict):
        return None
    name = data[0].get("id")
    return name if isinstance(name, str) else None


def max_model_len_of(models: str) -> int | None:
    """`max_model_len` of the first model, where the engine tells it."""
    data = _load(models).get("data")
    first = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
    value = first.get("max_model_len")
    return value if type(value) is int else None


def _load(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
