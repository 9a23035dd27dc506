"""Rules of kernels, quantisation and caching; the version-dependent ones are data of spec."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from k3repro.bringup._plan import Launch, Plan
from k3repro.bringup._rule import number, rule
from k3repro.spec import model_facts, rules_for

_BACKENDS = ("mori_high_throughput", "mori_low_latency", "allgather_reducescatter", "naive", "pplx",
             "deepep_high_throughput", "deepep_low_latency", "flashinfer_all2allv")  # fmt: skip


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
        for item in rules_for(launch_facts(launch, plan), version):
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
