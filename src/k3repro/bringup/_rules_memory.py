"""Rules of the memory budget: what 192 GB refused at start, at capture and at registration."""

from __future__ import annotations

from collections.abc import Iterator

from k3repro.bringup._facts import law_of
from k3repro.bringup._plan import Launch, Plan
from k3repro.bringup._rule import number, rule

_GIB = 2**30
_GRAPHS = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


def _graph(launch: Launch) -> str:
    return str(launch.document("--compilation-config").get("cudagraph_mode", ""))


def _gib(plan: Plan, name: str) -> float:
    return float(plan.recipe.get("memory", name))


def _heap(launch: Launch) -> int:
    text = launch.variables.get("MORI_SHMEM_HEAP_SIZE", "")
    return int(text) if text.isdigit() else 0


@rule(
    "heap-plus-utilisation",
    "deny",
    source="framework preflight; master report, section 8",
    reason="The free-memory check at start counts utilisation x capacity, and the heap is taken before it.",
    fix="Lower layout.gpu_memory_utilization or layout.heap_bytes.",
)
def _start(plan: Plan) -> Iterator[str]:
    capacity = plan.recipe.platform.hbm_bytes / _GIB
    for launch in plan.launches:
        share = float(launch.flag("--gpu-memory-utilization") or 0.9)
        left = capacity - share * capacity - _heap(launch) / _GIB
        if left < _gib(plan, "start_reserve_gib"):
            need = _gib(plan, "start_reserve_gib")
            yield f"{launch.role}: {left:.1f} GiB left of {capacity:.1f}, {need:g} needed"


@rule(
    "pool-and-heap-fit",
    "deny",
    source="master report, section 8",
    reason="Weights, heap and pool together leave too little for graph capture.",
    fix="Lower layout.heap_bytes or layout.kv_pool_bytes.",
)
def _fit(plan: Plan) -> Iterator[str]:
    capacity = plan.recipe.platform.hbm_bytes / _GIB
    for launch in plan.launches:
        pool = number(launch, "--kv-cache-memory-bytes") or 0
        left = capacity - _gib(plan, "weights_gib") - (_heap(launch) + pool) / _GIB
        if left < _gib(plan, "capture_reserve_gib"):
            yield f"{launch.role}: {left:.1f} GiB left, {_gib(plan, 'capture_reserve_gib'):g} needed"


@rule(
    "one-request-fits",
    "deny",
    source="block law; master report, section 8",
    reason="The engine refuses to start when its pool does not hold one request of max_model_len.",
    fix="Lower layout.max_model_len or raise layout.kv_pool_bytes.",
)
def _one(plan: Plan) -> Iterator[str]:
    layout = plan.recipe.layout
    if not law_of(plan).starts(layout.kv_pool_bytes, layout.max_model_len):
        longest = law_of(plan).longest_at_startup(layout.kv_pool_bytes)
        yield f"{layout.max_model_len:,} tokens asked for, {longest or 0:,} fit"


@rule(
    "capture-sizes",
    "deny",
    source="publication, Serving Configuration; master report, section 8",
    reason="On 192 GB the full graph family and capture entries above 32 ran out of memory during capture.",
    fix="PIECEWISE, --cudagraph-capture-sizes up to 32, few sequences.",
)
def _capture(plan: Plan) -> Iterator[str]:
    if plan.recipe.platform.hbm_bytes > 200 * _GIB:
        return
    for launch in plan.launches:
        mode = _graph(launch)
        if mode in {"NONE", ""}:
            continue
        sizes = [int(text) for text in launch.values("--cudagraph-capture-sizes") if text.isdigit()]
        largest = max(sizes) if sizes else 2 * (number(launch, "--max-num-seqs") or 256)
        if mode.startswith("FULL"):
            yield f"{launch.role}: {mode} on {plan.recipe.platform.title}"
        if largest > 32:
            yield f"{launch.role}: captures up to {largest}"


@rule(
    "slots-validated",
    "warn",
    source="master report, section 8",
    reason="On 192 GB 32 slots ended at KV registration (HSA_STATUS_ERROR_OUT_OF_RESOURCES); 8 started.",
    fix="layout.max_num_seqs = 8, or watch the first start for that line.",
)
def _slots(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        slots = number(launch, "--max-num-seqs") or 1024
        if plan.recipe.platform.hbm_bytes <= 200 * _GIB and slots > 8:
            yield f"{launch.role}: {slots} slots"


@rule(
    "waits-as-long-as-the-engine",
    "warn",
    source="recipe: VLLM_ENGINE_READY_TIMEOUT_S",
    reason="The bring-up gives up while the engine itself would still load.",
    fix="order.ready_s at least VLLM_ENGINE_READY_TIMEOUT_S.",
)
def _ready(plan: Plan) -> Iterator[str]:
    waits = plan.timing("ready_s")
    for launch in plan.launches:
        engine = launch.variables.get("VLLM_ENGINE_READY_TIMEOUT_S", "")
        if engine.isdigit() and int(engine) > waits and not plan.cluster.simulated:
            yield f"{launch.role}: {waits:g} s, the engine {engine} s"


@rule(
    "graph-mode",
    "deny",
    source="vLLM, cudagraph modes",
    reason="Another word is refused at start.",
    fix=f"One of {', '.join(_GRAPHS)}.",
)
def _mode(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        if _graph(launch) not in _GRAPHS:
            yield f"{launch.role}: cudagraph_mode {_graph(launch)!r}"


@rule("no-bare-eager", "deny", source="recipe, connectors/moriio.sh",
      reason="Without +quant_fp8 the AITER fp8 operator crashes at start.",
      fix='cudagraph_mode NONE with custom_ops ["+quant_fp8"]; never --enforce-eager.')  # fmt: skip
def _eager(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        custom = launch.document("--compilation-config").get("custom_ops", [])
        if launch.flag("--enforce-eager") is not None or "+quant_fp8" not in custom:
            yield f"{launch.role}: --enforce-eager, or custom_ops without +quant_fp8"


@rule(
    "expandable-segments-off",
    "deny",
    source="mori#355",
    reason="Expandable segments break the registration of memory for RDMA (errno 14).",
    fix="PYTORCH_ALLOC_CONF and PYTORCH_HIP_ALLOC_CONF = expandable_segments:False.",
)
def _segments(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"):
            if "expandable_segments:False" not in launch.variables.get(name, ""):
                yield f"{launch.role}: {name} is {launch.variables.get(name, 'not set')}"


@rule(
    "handshake-timeout",
    "deny",
    source="vLLM core.py; recipe",
    reason="Compiling for 320,000 tokens takes longer than a worker waits for its master (5 minutes).",
    fix="order.handshake_minutes = 30; the Dockerfile raises the constant.",
)
def _handshake(plan: Plan) -> Iterator[str]:
    minutes = float(plan.recipe.get("order", "handshake_minutes"))
    if plan.recipe.layout.max_model_len >= 320_000 and minutes < 30:
        yield f"{minutes:g} minutes at {plan.recipe.layout.max_model_len:,} tokens"
