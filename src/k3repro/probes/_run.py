"""run_probe: one probe, one target, one artifact."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from k3repro.client import open_target
from k3repro.errors import GateFailed, UsageError
from k3repro.probes import envelope, latency, needle_gate, osl_sweep, self_consistency
from k3repro.probes._instrument import instrument
from k3repro.probes._session import Session
from k3repro.probes.crosscheck import server_reasons, witness
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.plan import as_parameters, estimate, whole
from k3repro.probes.progress import Progress, Silent
from k3repro.serve import facts
from k3repro.serve.metrics import Metrics
from k3repro.store import Artifact, Header, Run, Store

PROBES: dict[str, ModuleType] = {
    probe.NAME: probe for probe in (envelope, latency, needle_gate, osl_sweep, self_consistency)
}


def probe_named(name: str) -> ModuleType:
    """The module of a probe.

    Raises:
        UsageError: no such probe.
    """
    if name not in PROBES:
        raise UsageError(f"no probe {name!r}", fix=f"The probes are {', '.join(sorted(PROBES))}.")
    return PROBES[name]


def parameters_of(name: str, values: Mapping[str, Any]) -> Any:
    """The frozen Parameters of a probe; lists become tuples, what is not given keeps its default.

    Raises:
        UsageError: a parameter that the probe does not have.
    """
    probe = probe_named(name)
    known = {field.name for field in dataclasses.fields(probe.Parameters)}
    if unknown := set(values) - known:
        fix = f"It has {', '.join(sorted(known))}."
        raise UsageError(f"{name} has no parameter {', '.join(sorted(unknown))}", fix=fix)
    return probe.Parameters(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})


def estimate_probe(name: str, **parameters: Any) -> dict[str, Any]:
    """What the probe would send, without sending it (see `plan.estimate`)."""
    return {"probe": name, **estimate(probe_named(name).plan(parameters_of(name, parameters)))}


def run_probe(
    name: str,
    *,
    target: str,
    store: Store | None = None,
    seed: int = 0,
    unsafe: bool = False,
    model: str | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Artifact:
    """Run a probe and seal its artifact, also when its verdict is not ok: what was seen is kept.

    An unfinished run of the same probe, target, seed and parameters resumes at its next rung. A performance
    probe needs a passing needle-gate of the same serve; `unsafe` does without and taints the artifact.
    `model` names the model where the target does not: a P/D router answers 503 to /v1/models.

    Raises:
        UsageError: no such probe or parameter.
        GateFailed: no passing gate for this serve.
        InvalidRun: the canary failed, or somebody pressed Ctrl-C.
        TargetError: the target cannot be used.
    """
    probe, chosen = probe_named(name), parameters_of(name, parameters)
    store, progress = store or Store(), progress or Silent()
    with Interrupt(progress).watch() as interrupt, open_target(target, seed=seed, model=model) as opened:
        serve = serve_facts(opened)
        gate = passing_gate(store, opened.subject, serve["id"]) if probe.PERFORMANCE and not unsafe else None
        if probe.PERFORMANCE and gate is None and not unsafe:
            fix = f"Run `k3repro probe needle-gate --target '{target}'` first; --unsafe taints."
            raise GateFailed(
                f"no passing needle-gate for this serve ({serve['id']})", where=opened.subject, fix=fix
            )
        header = Header(
            name, opened.subject, "probe", f"{probe.__name__}:procedure",
            parameters=as_parameters(chosen) | {"seed": seed, "unsafe": unsafe},
            inputs=(gate.seal,) if gate else (), serve=serve, clock=opened.clock,
        )  # fmt: skip
        with store.begin(header, probe.SCHEMA) as run:
            tested = instrument(opened)
            run.serve.update(serve | {"instrument": tested.as_dict() if tested else {"clock": "virtual"}})
            session = Session(opened, run, progress, interrupt, seed=seed, selftest=tested)
            return _carry_out(probe, chosen, session, run, unsafe)


def _carry_out(probe: ModuleType, chosen: Any, session: Session, run: Run, unsafe: bool) -> Artifact:
    session.progress.begin(probe.NAME, whole(probe.plan(chosen)))
    verdict: dict[str, Any] = {"ok": False, "reasons": ["stopped"]}
    try:
        session.recover()
        verdict = judge(probe, chosen, session, run)
    finally:
        session.progress.end(verdict)
    if unsafe and probe.PERFORMANCE:
        reasons = ["unsafe: measured without a passing needle-gate", *verdict["reasons"]]
        verdict |= {"ok": False, "tainted": True, "reasons": reasons}
    run.serve.update(serve_facts(session.target))
    return run.seal(verdict)


def judge(probe: ModuleType, chosen: Any, session: Session, run: Run) -> dict[str, Any]:
    """The procedure and its verdict, with what the server's own counters have to say of it."""
    before = _witness(session.target)
    probe.procedure(session, chosen)
    verdict: dict[str, Any] = probe.verdict(session, chosen)
    after, rows = _witness(session.target), run.rows("requests")
    if parted := server_reasons(before, after, rows, timing=probe.PERFORMANCE):
        verdict |= {"ok": False, "reasons": [*verdict["reasons"], *parted]}
    return verdict


def _witness(target: Any) -> Metrics:
    answer = target.run(lambda opened: opened.fetch("/metrics"))
    return witness(answer.text if answer.status == 200 else None)


def serve_facts(target: Any) -> dict[str, Any]:
    """The serve record of an open target, as it answers now."""
    paths = ("/version", "/v1/models", "/health", "/metrics")
    fetched = {path: target.run(lambda opened, path=path: opened.fetch(path)) for path in paths}
    answers = {path: answer.text if answer.status == 200 else None for path, answer in fetched.items()}
    known = {"seed": target.seed} if target.clock == "virtual" else {}
    return facts(answers, target=target.subject, evidence=target.serve["evidence"], **known)


def passing_gate(store: Store, subject: str, serve_id: str) -> Artifact | None:
    """The strongest current needle-gate of this very serve whose verdict is ok; None when there is none.

    A gate that never had requests in flight together says nothing about mixing them, so it does not count.
    """
    passed = [
        gate
        for gate in store.artifacts(name=needle_gate.NAME, subject=subject)
        if gate.verdict.get("ok")
        and gate.serve.get("id") == serve_id
        and max(gate.parameters["concurrency"]) > 1
    ]
    return max(passed, key=lambda gate: (gate.verdict["total"], gate.seal), default=None)
