"""Two serves, one probe: the slot intervention and A/B ablations, measured side by side and compared.

Each side is an artifact of its own serve; the comparison is a derivation over them, so it can be
recomputed and extended. A side that is already measured is not measured again, so an interrupted
comparison goes on
where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k3repro.client import TwinAddress, open_target, parse_target
from k3repro.errors import InvalidRun, UsageError
from k3repro.probes import _run, needle_gate
from k3repro.probes.effects import effect, slot_effect
from k3repro.probes.plan import as_parameters
from k3repro.probes.progress import Progress, Silent
from k3repro.store import Artifact, Store

PAIRED: dict[str, int] = {"ablation": 3, "slots": 1}
"""Probes that compare two serves, and how many restarts a side they make unless told otherwise."""


def run_pair(
    name: str,
    a: str,
    b: str,
    *,
    store: Store | None = None,
    restarts: int | None = None,
    seed: int = 0,
    unsafe: bool = False,
    model: str | None = None,
    progress: Progress | None = None,
    gate_context: int = 0,
    name_as: str = "",
    hardware: str = "",
    **parameters: Any,
) -> Artifact:
    """Measure both sides, `restarts` serves each, interleaved; returns the sealed comparison.

    The gate runs on every serve before it is measured, at `gate_context` tokens (0: as many as usual). Of
    the twin each restart is another seed. A URL has to be relaunched by hand or by `bringup` between
    restarts: the run stops there, and the same command goes on.

    Raises:
        UsageError: a probe that does not compare, or two sides that are one.
        InvalidRun: a restart that is no fresh serve, or a serve whose gate fails.
    """
    if name not in PAIRED:
        raise UsageError(f"{name} does not compare two serves", fix=f"These do: {', '.join(sorted(PAIRED))}.")
    if a == b:
        raise UsageError("both sides are the same target", fix="Change one setting of --against.")
    store, progress = store or Store(), progress or Silent()
    count = PAIRED[name] if restarts is None else restarts
    if count < 1:
        raise UsageError("at least one restart a side", fix="--restarts 3")
    measured: list[Artifact] = []
    for restart in range(count):
        # ABBA, so that a drift over the day does not favour a side.
        for side, target in (("a", a), ("b", b)) if restart % 2 == 0 else (("b", b), ("a", a)):
            extra = {"side": side, "restart": restart} if name == "ablation" else {}
            used = {artifact.serve.get("id") for artifact in measured}
            measured.append(
                _side(
                    name,
                    target,
                    store,
                    seed + restart,
                    unsafe,
                    model,
                    progress,
                    used,
                    {"name_as": name_as, "hardware": hardware},
                    {**parameters, **extra},
                    gate_context,
                )
            )
    subject = " against ".join(dict.fromkeys(artifact.subject for artifact in measured))
    producer = effect if name == "ablation" else slot_effect
    reasons = [f"{x.subject}: {reason}" for x in measured for reason in x.verdict["reasons"]]
    verdict = {"ok": not reasons, "reasons": reasons}
    return store.derive(producer, measured, subject=subject, verdict=verdict)


def _side(
    name: str, target: str, store: Store, seed: int, unsafe: bool, model: str | None, progress: Progress,
    used: set[Any], called: Mapping[str, str],
    parameters: Mapping[str, Any], gate_context: int,
) -> Artifact:  # fmt: skip
    simulated = isinstance(parse_target(target), TwinAddress)
    seed = seed if simulated else 0
    wanted = as_parameters(_run.resolved(name, target, parameters)) | {"seed": seed, "unsafe": unsafe}
    subject, found = _run.who_answers(target, model=model, **called)
    for artifact in store.artifacts(name=name, subject=subject):
        if artifact.parameters == wanted and not simulated:
            return artifact
    if not simulated:
        _require_fresh(target, found, used)
    options: dict[str, Any] = {
        "target": target, "store": store, "seed": seed, "model": model, "progress": progress, **called,
    }  # fmt: skip
    if not unsafe:
        passed = _run.run_probe(
            "needle-gate", **options, context=gate_context or _gate_context(target, model)
        )
        if not passed.verdict["ok"]:
            raise InvalidRun("the gate failed", where=subject, fix=str(passed.verdict["reasons"][0]))
    return _run.run_probe(name, unsafe=unsafe, **options, **parameters)


def _gate_context(target: str, model: str | None) -> int:
    """The gate's own context, or the longest that this serve takes."""
    usual = needle_gate.Parameters()
    with open_target(target, model=model) as opened:
        limit = opened.max_model_len
    # A tenth less: prompts are sized by words, and one token too many is refused.
    return usual.context if limit is None else min(usual.context, limit * 9 // 10 - usual.max_tokens)


def _require_fresh(target: str, found: str, used: set[Any]) -> None:
    if found in used:
        fix = "Relaunch it, then run the same command: it goes on with this restart."
        raise InvalidRun(
            f"{found} has been measured already; a restart is a fresh serve", where=target, fix=fix
        )
