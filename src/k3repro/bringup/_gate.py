"""The needle gate of a fresh serve, and the artifact of its bring-up."""

from __future__ import annotations

from typing import Any

from k3repro.bringup._plan import Plan
from k3repro.bringup._record import seal_bring_up
from k3repro.bringup._state import State, StateFile
from k3repro.client import Target, open_target
from k3repro.probes import run_probe
from k3repro.serve import facts
from k3repro.store import Artifact, Store

_PATHS = ("/version", "/v1/models", "/health", "/metrics")


async def _fetch(target: Target, path: str) -> Any:
    return await target.fetch(path)


def serve_record(plan: Plan, state: State) -> dict[str, Any]:
    """Facts of the serve from its decode master: a P/D router names neither model nor version."""
    launch = plan.launch("decode_master")
    url = f"http://{launch.node.address}:{launch.flag('--port')}"
    with open_target(url) as target:
        fetched = {path: target.run(_fetch, path) for path in _PATHS}
        answers = {path: item.text if item.status == 200 else None for path, item in fetched.items()}
        evidence = target.serve["evidence"]
    lines = state.facts.get("startup", {}).get("startup_lines", ())
    known = {"plan": state.digest, "recipe": plan.recipe.name, "bring_up": state.serve}
    return facts(answers, target=f"cluster:{state.cluster}", evidence=evidence, startup_lines=lines, **known)


def gate_serve(plan: Plan, state: State, context: int | None = None, store: Store | None = None) -> Artifact:
    """Seal the bring-up, run the needle gate through the router, and mark the state as up when it passes.

    Returns:
        The gate's artifact; its verdict decides.
    """
    store = store or Store()
    record = seal_bring_up(store, state, serve_record(plan, state), plan.recipe.name)
    model = plan.launches[0].flag("--served-model-name")
    parameters: dict[str, Any] = {"context": context} if context else {}
    called = f"{model}@{plan.recipe.platform.name}/{state.cluster}"
    artifact = run_probe(
        "needle-gate", target=state.url, store=store, model=model, name_as=called, **parameters
    )
    file = StateFile(state.cluster)
    state.facts |= {"bring_up": record.seal, "gate": artifact.seal}
    passed = bool(artifact.verdict["ok"])
    state.event("up" if passed else "failed", "needle gate passed" if passed else "needle gate failed")
    file.save(state)
    return artifact
