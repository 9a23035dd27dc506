"""run_probe: one probe, one target, one artifact."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from k3repro.client import open_target
from k3repro.errors import GateFailed, TargetError, UsageError
from k3repro.probes import needle_gate
from k3repro.probes._bounds import check_bounds
from k3repro.probes._instrument import instrument, measured_already
from k3repro.probes._registered import probe_named
from k3repro.probes._session import Session
from k3repro.probes.confirmation import SEEN_ON_ONE, earlier_runs, require_fresh, seal_confirmation
from k3repro.probes.crosscheck import event_reasons, server_reasons, witness
from k3repro.probes.identity import Identity
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.lateness import late_first_tokens
from k3repro.probes.notebook import offer
from k3repro.probes.plan import as_parameters, estimate, require_room, whole
from k3repro.probes.pricing import price
from k3repro.probes.progress import Progress, Silent
from k3repro.probes.serve_facts import serve_facts as serve_facts
from k3repro.probes.serve_facts import vouch
from k3repro.probes.setting import costs_of, setting_of
from k3repro.serve.metrics import Metrics
from k3repro.store import Artifact, Header, Run, Store


def parameters_of(name: str, values: Mapping[str, Any]) -> Any:
    """The frozen Parameters of a probe; lists become tuples, what is not given keeps its default.

    Raises:
        UsageError: a parameter that the probe does not have, or a number out of bounds.
    """
    probe = probe_named(name)
    known = {field.name for field in dataclasses.fields(probe.Parameters)}
    if unknown := set(values) - known:
        fix = f"It has {', '.join(sorted(known))}."
        raise UsageError(f"{name} has no parameter {', '.join(sorted(unknown))}", fix=fix)
    chosen = probe.Parameters(**{key: tuple(v) if isinstance(v, list) else v for key, v in values.items()})
    check_bounds(chosen)
    return chosen


def resolved(name: str, target: str, values: Mapping[str, Any]) -> Any:
    """Parameters with what the target itself says filled in, for probes that depend on it (`resolve`)."""
    chosen = parameters_of(name, values)
    resolve = getattr(probe_named(name), "resolve", None)
    return resolve(chosen, target) if resolve is not None else chosen


def estimate_probe(
    name: str, *, target: str = "", platform: str = "", store: Store | None = None, **parameters: Any
) -> dict[str, Any]:
    """What the probe would send, without sending it: requests, tokens, minutes and KV of each rung.

    Minutes and KV need to know the serve: the twin does, a URL through a sealed wall law or `platform`;
    else null.
    """
    probe = probe_named(name)
    if platform and "platform" in {field.name for field in dataclasses.fields(probe.Parameters)}:
        parameters["platform"] = platform
    chosen = resolved(name, target, parameters)
    found = estimate(probe.plan(chosen))
    priced = price(
        found, probe.plan(chosen), setting_of(target, platform=platform), costs_of(target, store, platform)
    )
    return {"probe": name, **priced}


def run_probe(
    name: str,
    *,
    target: str,
    store: Store | None = None,
    seed: int = 0,
    unsafe: bool = False,
    model: str | None = None,
    confirm: bool = False,
    hardware: str = "",
    behind: Sequence[str] = (),
    name_as: str = "",
    launch: Mapping[str, Any] | None = None,
    tokenizer: str = "",
    progress: Progress | None = None,
    **parameters: Any,
) -> Artifact:
    """Run a probe and seal its artifact, also when its verdict is not ok: what was seen is kept.

    An unfinished run of the same probe, target, seed and parameters resumes at its next rung. A performance
    probe needs a passing needle-gate of the same serve; `unsafe` does without and taints the artifact.
    `confirm` repeats the newest run of this probe and target on a fresh serve and returns the sealed
    comparison of their limits (`confirmation`); of the twin a fresh serve is the next seed.
    `model` names the model where the target does not: a P/D router answers 503 to /v1/models. `hardware` is
    recorded as the serve's platform, which no endpoint tells: a statement of whoever runs this, no evidence.
    `behind` are URLs of engines behind a router, which shows no evidence of a real engine itself; a restart
    of one of them is another serve. `name_as` takes the place of the model's name in artifacts (see
    `open_target`); `launch` is how it was started, as far as no endpoint tells, kept in the serve record.
    `tokenizer`: a tokenizer.json or its folder, by which prompts are sized;
    "" uses the server's /tokenize where it has one, "none" neither.

    Raises:
        UsageError: no such probe or parameter.
        GateFailed: no passing gate for this serve.
        InvalidRun: the canary failed, or somebody pressed Ctrl-C.
        TargetError: the target cannot be used.
    """
    probe, chosen = probe_named(name), resolved(name, target, parameters)
    store, progress = store or Store(), progress or Silent()
    if confirm:
        options: dict[str, Any] = {
            "unsafe": unsafe, "model": model, "hardware": hardware, "behind": behind, "tokenizer": tokenizer,
            "name_as": name_as,
        }  # fmt: skip
        return _confirm(name, target, store, progress, **options)
    # What cannot be planned is refused before a gate of ten minutes is asked for.
    planned = probe.plan(chosen)
    said: dict[str, Any] = {"platform": hardware} if hardware else {}
    said |= {"launch": dict(launch)} if launch else {}
    with (
        Interrupt(progress).watch() as interrupt,
        open_target(target, seed=seed, model=model, name=name_as, hardware=hardware) as opened,
    ):
        known = _behind(opened, behind)
        require_room(planned, opened.max_model_len, opened.subject)
        serve = serve_facts(opened, **known) | said
        gate = passing_gate(store, serve["id"]) if probe.PERFORMANCE and not unsafe else None
        if probe.PERFORMANCE and gate is None and not unsafe:
            offer(f'run_probe("needle-gate", target={target!r}, progress=choose())')
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
            if opened.clock == "wall" and not measured_already():
                progress.note(f"{opened.subject}: measuring the client itself first, a few seconds")
            tested = instrument(opened)
            earlier = _earlier_serves(run, serve["id"])
            run.serve.update(serve | {"instrument": tested.as_dict() if tested else {"clock": "virtual"}})
            if opened.clock == "wall":  # the clock of a simulation has no days
                run.serve["at"] = datetime.now(UTC).isoformat(timespec="seconds")
            identity = Identity(serve)
            session = Session(
                opened, run, progress, interrupt, seed=seed, selftest=tested, timed=probe.PERFORMANCE,
                identity=None if opened.clock == "virtual" else identity, tokenizer=tokenizer,
                natural=getattr(chosen, "natural", False),
            )  # fmt: skip
            return _carry_out(probe, chosen, session, run, unsafe, earlier, identity, behind)


def who_answers(
    target: str,
    *,
    model: str | None = None,
    name_as: str = "",
    hardware: str = "",
    behind: Sequence[str] = (),
) -> tuple[str, str]:
    """Subject and serve of a target, which is asked who it is."""
    with open_target(target, model=model, name=name_as, hardware=hardware) as opened:
        serve = serve_facts(opened, **_behind(opened, behind))
        return opened.subject, serve["id"]


def _behind(opened: Any, urls: Sequence[str]) -> dict[str, Any]:
    with ExitStack() as stack:
        engines = {f"engine-{n}": stack.enter_context(open_target(url)) for n, url in enumerate(urls, 1)}
        opened.engine = opened.engine or next((e.engine for e in engines.values() if e.engine), "")
        return {"behind": vouch(opened, engines)} if engines else {}


def _earlier_serves(run: Run, serve: str) -> list[str]:
    """Serves that other waves of a resumed run came from: what is drawn from it is stitched, and says so."""
    known = [*run.serve.get("stitched", []), *([run.serve.get("id")] if run.waves else [])]
    return [found for found in dict.fromkeys(known) if found and found != serve]


def _confirm(
    name: str, target: str, store: Store, progress: Progress, *, unsafe: bool, model: str | None,
    hardware: str, behind: Sequence[str], tokenizer: str, name_as: str,
) -> Artifact:  # fmt: skip
    called: dict[str, Any] = {"model": model, "name_as": name_as, "hardware": hardware, "behind": behind}
    subject, serve = who_answers(target, **called)
    before = earlier_runs(store, name, subject)
    newest = before[-1]
    simulated = newest.clock == "virtual"
    seed = 1 + max(run.parameters["seed"] for run in before) if simulated else newest.parameters["seed"]
    if not simulated:
        require_fresh(before, serve, target)
    values = {key: value for key, value in newest.parameters.items() if key not in ("seed", "unsafe")}
    options = {
        **called, "target": target, "store": store, "seed": seed, "tokenizer": tokenizer,
        "progress": progress,
    }  # fmt: skip
    if probe_named(name).PERFORMANCE and not unsafe:
        run_probe(needle_gate.NAME, **options)
    again = run_probe(name, unsafe=unsafe, **options, **values)
    return seal_confirmation(store, [*before, again])


def _carry_out(
    probe: ModuleType,
    chosen: Any,
    session: Session,
    run: Run,
    unsafe: bool,
    earlier: list[str],
    identity: Identity,
    behind: Sequence[str],
) -> Artifact:
    session.progress.begin(probe.NAME, whole(probe.plan(chosen), wall=not session.virtual))
    if earlier:
        run.serve["stitched"] = earlier
    verdict: dict[str, Any] | None = None
    try:
        session.recover()
        verdict = judge_run(probe, chosen, session, run)
    finally:
        session.progress.end(verdict)
    if unsafe and probe.PERFORMANCE:
        reasons = ["unsafe: measured without a passing needle-gate", *verdict["reasons"]]
        verdict |= {"ok": False, "tainted": True, "reasons": reasons}
    gone = _last_look(session.target, run, identity, behind)
    serves = [*earlier, run.serve["id"], *identity.others]
    if others := identity.reasons() + gone:
        verdict |= {"ok": False, "reasons": [*others, *verdict["reasons"]]}
    standing = SEEN_ON_ONE if len(serves) == 1 else f"stitched from {len(serves)} serves"
    if identity.others:
        run.serve["stitched"] = [*earlier, *identity.others]
    if earlier:
        reasons = [f"{standing}: the run was resumed on another serve than it began on", *verdict["reasons"]]
        verdict |= {"ok": False, "reasons": reasons}
    verdict |= {"standing": standing, "serves": serves}
    return run.seal(verdict)


def _last_look(target: Any, run: Run, identity: Identity, behind: Sequence[str]) -> list[str]:
    """How healthy the serve is now, and whether it is still the one; it keeps the id it began with, so that
    metrics that went silent make no other serve of it.
    """
    gone: list[str] = []
    try:
        known = _behind(target, behind)
    except TargetError as error:
        known, gone = {}, [f"an engine behind the router no longer answers: {error}"]
    now = serve_facts(target, **known)
    identity.note(now, "after the last rung")
    run.serve.update({key: now[key] for key in ("health", "evidence")})
    return gone


def judge_run(probe: ModuleType, chosen: Any, session: Session, run: Run) -> dict[str, Any]:
    """The procedure and its verdict, with what the server's own counters have to say of it."""
    before = _witness(session.target)
    probe.procedure(session, chosen)
    verdict: dict[str, Any] = probe.verdict(session, chosen)
    after, rows = _witness(session.target), run.rows("requests")
    if parted := server_reasons(before, after, rows, timing=probe.PERFORMANCE):
        verdict |= {"ok": False, "reasons": [*verdict["reasons"], *parted]}
    if probe.PERFORMANCE and (shared := event_reasons(rows)):
        verdict["events"] = shared[0]
    if probe.PERFORMANCE and (late := late_first_tokens(run.rows("rungs"), rows)):
        verdict["late"] = (
            f"TTFT of {len(late)} rungs: the client's timers were late by up to "
            f"{max(late.values()) * 1000:.1f} ms, too much beside it; the other times stand"
        )
    return verdict


def _witness(target: Any) -> Metrics:
    answer = target.run(lambda opened: opened.fetch("/metrics"))
    return witness(answer.text if answer.status == 200 else None)


def passing_gate(store: Store, serve_id: str) -> Artifact | None:
    """The strongest current needle-gate of this very serve that is ok, the newest of equals, or None.

    A gate that never had requests in flight together says nothing about mixing them, so it does not count.
    """
    passed = [
        gate
        for gate in store.artifacts(name=needle_gate.NAME)
        if gate.verdict.get("ok")
        and gate.serve.get("id") == serve_id
        and max(gate.parameters["concurrency"]) > 1
        and not gate.parameters.get("experiment")
    ]
    return max(reversed(passed), key=lambda gate: int(gate.verdict["total"]), default=None)
