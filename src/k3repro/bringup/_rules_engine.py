"""Rules of kernels, quantisation and caching; the version-dependent ones stand in engine-rules.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from k3repro.bringup._plan import Launch, Plan
from k3repro.bringup._rules import number, rule
from k3repro.errors import InputError
from k3repro.spec import Model

_BACKENDS = ("mori_high_throughput", "mori_low_latency", "allgather_reducescatter", "naive", "pplx",
             "deepep_high_throughput", "deepep_low_latency", "flashinfer_all2allv")  # fmt: skip


@dataclass(frozen=True, slots=True)
class EngineRule:
    """What an engine does in a range of versions. `when` maps facts of a launch to the values it holds for.

    `since` <= version < `until`; either may be missing. `outcome`: allow, deny or substitutes.
    """

    id: str
    outcome: str
    what: str
    fix: str
    evidence: str
    when: dict[str, Any]
    since: str = ""
    until: str = ""

    def covers(self, version: tuple[int, int, int]) -> bool:
        """Whether the rule is about this version."""
        low = _version(self.since) if self.since else (0, 0, 0)
        high = _version(self.until) if self.until else (999, 0, 0)
        return low <= version < high

    def matches(self, facts: dict[str, Any]) -> bool:
        """Whether every condition holds; an unknown fact matches nothing."""
        return all(_holds(facts.get(name), wanted) for name, wanted in self.when.items())


def _holds(have: Any, wanted: Any) -> bool:
    if have is None:
        return False
    if isinstance(wanted, dict):
        return all(
            (test == "not" and have not in limit) or (test == "above" and have > limit)
            or (test == "not_multiple_of" and have % limit != 0)
            for test, limit in wanted.items()
        )  # fmt: skip
    return have in wanted if isinstance(wanted, list) else bool(have == wanted)


def _version(text: str) -> tuple[int, int, int]:
    parts = [int(part) for part in text.split(".")]
    return (parts[0], parts[1], parts[2] if len(parts) > 2 else 0)


@cache
def engine_rules() -> tuple[EngineRule, ...]:
    """The shipped rules."""
    raw = tomllib.loads(files("k3repro.bringup").joinpath("engine-rules.toml").read_text(encoding="utf-8"))
    return tuple(EngineRule(**entry) for entry in raw["rule"])


def launch_facts(launch: Launch, plan: Plan) -> dict[str, Any]:
    """What engine rules ask about a launch."""
    env, tp = launch.variables, plan.recipe.layout.tp
    return {
        "arch": plan.recipe.platform.arch,
        **model_facts(plan.recipe.model, tp, launch.flag("--mm-encoder-tp-mode")),
        "attention_backend": launch.flag("--attention-backend"),
        "quantization": launch.flag("--quantization"),
        "block_size": number(launch, "--block-size"),
        "kv_dtype": launch.flag("--kv-cache-dtype"),
        "aiter": env.get("VLLM_ROCM_USE_AITER", "0") == "1",
        "aiter_mla": env.get("VLLM_ROCM_USE_AITER_MLA", "1") == "1" and env.get("VLLM_ROCM_USE_AITER") == "1",
        "kv_offload": launch.flag("--kv-offloading-size") is not None,
    }


def model_facts(model: Model, tp: int, vision_mode: str | None = None) -> dict[str, Any]:
    """What engine rules ask about a model at a TP size; in vision mode "data" the tower is not sharded."""
    mla, vision = model.mla, model.vision
    sharded = 1 if vision_mode == "data" else tp
    return {
        "attention": ("sparse-mla" if model.indexer else "dense-mla") if mla is not None else "gqa",
        "heads_per_rank": mla.heads // tp if mla else None,
        "vision_columns": vision.intermediate // sharded if vision else None,
    }


def judge(facts: dict[str, Any], version: str) -> list[EngineRule]:
    """Rules that match facts at an engine version, deny first.

    Raises:
        InputError: not a version.
    """
    try:
        parsed = _version(version.removeprefix("vllm==").removeprefix("v"))
    except (ValueError, IndexError):
        raise InputError(f"{version!r} is not an engine version", fix="Write it like 0.14.1.") from None
    order = ("deny", "substitutes", "allow")
    found = [item for item in engine_rules() if item.covers(parsed) and item.matches(facts)]
    return sorted(found, key=lambda item: order.index(item.outcome))


@rule(
    "engine-compatibility",
    "deny",
    source="engine-rules.toml, evidence per rule",
    reason="The engine refuses this combination in this version.",
    fix="See the rule.",
)
def _denied(plan: Plan) -> Iterator[str]:
    yield from _engine(plan, "deny")


@rule(
    "engine-substitutes",
    "substitutes",
    source="engine-rules.toml, evidence per rule",
    reason="The engine runs something else than was asked for, without an error.",
    fix="See the rule.",
)
def _substituted(plan: Plan) -> Iterator[str]:
    yield from _engine(plan, "substitutes")


def _engine(plan: Plan, outcome: str) -> Iterator[str]:
    version = str(plan.recipe.get("pins", "engine_version"))
    for launch in plan.launches:
        for item in judge(launch_facts(launch, plan), version):
            if item.outcome == outcome:
                yield f"{launch.role}: {item.id}: {item.what} {item.fix} ({item.evidence})"


@rule(
    "batched-tokens",
    "deny",
    source="recipe; MAD docs",
    reason="On gfx942 8192 corrupts output and 16384 crashes code generation; its README allows 4096.",
    fix="layout.max_num_batched_tokens = 2048.",
)
def _batched(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        tokens = number(launch, "--max-num-batched-tokens") or 8192
        if tokens > 4096 and plan.recipe.platform.arch == "gfx942":
            yield f"{launch.role}: {tokens}"


@rule(
    "batched-tokens-validated",
    "warn",
    source="recipe",
    reason="Only 2048 was validated; wide batches also cost heap, because the dispatch buffer follows them.",
    fix="layout.max_num_batched_tokens = 2048.",
)
def _validated(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        tokens = number(launch, "--max-num-batched-tokens") or 8192
        if 2048 < tokens <= 4096 and plan.recipe.platform.arch == "gfx942":
            yield f"{launch.role}: {tokens}"


@rule("int4-config", "deny", source="recipe; MAD docs",
      reason="Without it the MXFP4 path is taken, which this architecture cannot compile (LLVM ERROR).",
      fix='flags.all.--quantization-config = {"moe":{"weight":"int4_per_group_32"}}.')  # fmt: skip
def _int4(plan: Plan) -> Iterator[str]:
    if plan.recipe.platform.native_mxfp4:
        return
    for launch in plan.launches:
        moe = launch.document("--quantization-config").get("moe")
        if not (isinstance(moe, dict) and moe.get("weight") == "int4_per_group_32"):
            yield f"{launch.role} has no int4 configuration"
        if launch.variables.get("AITER_SITUV2_A8W4") != "1":
            have = launch.variables.get("AITER_SITUV2_A8W4", "not set")
            yield f"{launch.role}: AITER_SITUV2_A8W4 is {have}"


@rule(
    "tuned-rows",
    "substitutes",
    source="publication, Challenge 2",
    reason="The tuned kernel table has no row for this architecture: heuristic kernels run instead.",
    fix="Expect it, keep max_num_batched_tokens at 2048, or bring a tuned table (pins.tuned_archs).",
)
def _tuned(plan: Plan) -> Iterator[str]:
    archs = str(plan.recipe.get("pins", "tuned_archs")).split(",")
    if plan.recipe.platform.arch not in [arch.strip() for arch in archs]:
        yield f"{plan.recipe.platform.arch} is not in {', '.join(archs)}"


@rule(
    "fused-activation",
    "substitutes",
    source="aiter#4471; publication, Challenge 2",
    reason="A build without the change ignores the fused SiTUv2 activation, or computes SiLU.",
    fix="Rebuild AITER with aiter#4471, set pins.aiter_fused_activation = yes; the gate decides anyway.",
)
def _fused(plan: Plan) -> Iterator[str]:
    if str(plan.recipe.get("pins", "aiter_fused_activation")) != "yes":
        yield f"AITER {plan.recipe.get('pins', 'aiter')}: not known to contain it"


@rule(
    "all2all-backend",
    "deny",
    source="vLLM, all2all backends",
    reason="The bare word mori is not accepted, and both pools need their own kernel.",
    fix="mori_high_throughput for prefill, mori_low_latency for decode.",
)
def _all2all(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        backend = launch.flag("--all2all-backend")
        if backend not in _BACKENDS:
            yield f"{launch.role}: {backend!r} is no backend"
        if launch.flag("--enable-expert-parallel") is None:
            yield f"{launch.role}: --enable-expert-parallel is missing"


@rule(
    "prefix-caching",
    "deny",
    source="recipe; agentic suite",
    reason="Synthetic probes measure a warm cache with it, agentic replay is meaningless without it.",
    fix="Synthetic: --no-enable-prefix-caching. Agentic (order.workload = agentic): remove it.",
)
def _prefix(plan: Plan) -> Iterator[str]:
    knob = plan.recipe.sections["order"].get("workload")
    agentic = knob is not None and knob.value == "agentic"
    for launch in plan.launches:
        off = launch.flag("--no-enable-prefix-caching") is not None
        if off == agentic:
            work = "agentic" if agentic else "synthetic"
            yield f"{launch.role}: prefix caching is {'off' if off else 'on'} for {work} work"


@rule(
    "one-model-name",
    "deny",
    source="MAD docs",
    reason="Another name is a 404 for every probe.",
    fix="flags.all.--served-model-name.",
)
def _name(plan: Plan) -> Iterator[str]:
    names = {launch.flag("--served-model-name") for launch in plan.launches}
    if len(names) != 1 or not next(iter(names)):
        yield f"roles serve {sorted(map(str, names))}"
