"""Rules of the transfer between the pools, of ports and of the data-parallel group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from k3repro.bringup._plan import Launch, Plan
from k3repro.bringup._rule import number, rule

_FLAG = "--kv-transfer-config"


def _extra(launch: Launch) -> dict[str, Any]:
    found = launch.document(_FLAG).get("kv_connector_extra_config", {})
    return found if isinstance(found, dict) else {}


@rule(
    "transfer-config-on-every-role",
    "deny",
    source="recipe; vLLM MoRIIO connector",
    reason="A headless rank without it binds no handshake listener; its peer waits, then dies.",
    fix="Put all four roles in transfer.roles.",
)
def _everywhere(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        if not launch.document(_FLAG):
            yield f"{launch.role} has no {_FLAG}"


@rule(
    "peer-hosts",
    "deny",
    source="recipe, fork key moriio_pod_hosts",
    reason="DP ranks whose peer is not listed decode without context: seven of eight at DP8, and no error.",
    fix="Producers list the decode pool, consumers the prefill pool, in rank order.",
)
def _peers(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        if not launch.document(_FLAG):
            continue
        peer = "decode" if launch.node.pool == "prefill" else "prefill"
        want = [node.address for node in plan.cluster.pool(peer)]
        have = [part for part in str(_extra(launch).get("moriio_pod_hosts", "")).split(",") if part]
        if have != want:
            yield f"{launch.role} lists {have or 'nobody'}, its peers are {want}"


@rule(
    "transfer-role",
    "deny",
    source="recipe",
    reason="Prefill produces the cache and decode consumes it; two producers never hand over.",
    fix="pool.prefill.kv_role = kv_producer, pool.decode.kv_role = kv_consumer.",
)
def _roles(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        want = "kv_producer" if launch.node.pool == "prefill" else "kv_consumer"
        have = launch.document(_FLAG).get("kv_role")
        if have is not None and have != want:
            yield f"{launch.role} is {have}"


@rule(
    "write-mode",
    "deny",
    source="vllm#45749, router 0.1.17 measured",
    reason="READ mode hangs in wide expert parallelism and gave garbage with full graphs.",
    fix="Remove read_mode: WRITE is the default.",
)
def _write(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        if str(_extra(launch).get("read_mode", "false")).lower() in {"true", "1"}:
            yield f"{launch.role} asks for READ mode"


@rule(
    "write-path-knobs",
    "deny",
    source="recipe README",
    reason="Other values destabilise the write-notify path of this stack.",
    fix="qp_per_transfer = 1, num_workers = 1, post_batch_size = -1.",
)
def _knobs(plan: Plan) -> Iterator[str]:
    want = {"qp_per_transfer": 1, "num_workers": 1, "post_batch_size": -1}
    for launch in plan.launches:
        for name, value in want.items():
            if (have := _extra(launch).get(name, value)) != value:
                yield f"{launch.role}: {name} is {have}"


@rule(
    "readback-barrier",
    "deny",
    source="publication, Defect A; recipe",
    reason="Without it decode reads stale cache at concurrency; the recipe's script defaults it to off.",
    fix="env.all.K3_WRITE_READBACK = 1.",
)
def _readback(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        if launch.variables.get("K3_WRITE_READBACK") != "1":
            have = launch.variables.get("K3_WRITE_READBACK", "not set")
            yield f"{launch.role}: K3_WRITE_READBACK is {have}"


@rule(
    "moriio-variables-ignored",
    "substitutes",
    source="vLLM MoRIIO connector",
    reason="These variables are deprecated and ignored: the JSON decides.",
    fix="Set qp_per_transfer, post_batch_size, num_workers or read_mode in transfer.extra.",
)
def _ignored(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        for name in launch.variables:
            if name.startswith("VLLM_MORIIO_CONNECTOR_"):
                yield f"{launch.role}: {name}"


@rule(
    "ports-apart",
    "deny",
    source="vLLM MoRIIO connector; gpustack#6019",
    reason="Handshake and notify listeners take TP x DP ports each; an overlap fails on one DP rank only.",
    fix="Keep the ranges apart from each other and from the single ports.",
)
def _ports(plan: Plan) -> Iterator[str]:
    ranks = plan.recipe.layout.tp * plan.recipe.layout.dp
    taken: list[tuple[int, str]] = []
    for name, knob in plan.recipe.sections["ports"].items():
        width = ranks if name in {"handshake", "notify"} else 1
        taken += [(int(knob.value) + rank, name) for rank in range(width)]
    if high := [name for port, name in taken if not 0 < port < 65536]:
        yield f"{', '.join(sorted(set(high)))} leave the range of ports"
    for port, count in sorted(Counter(port for port, _ in taken).items()):
        if count > 1:
            yield f"port {port} is wanted by {' and '.join(name for at, name in taken if at == port)}"


@rule(
    "ports-not-ephemeral",
    "warn",
    source="vllm serve at multi-node start, gpustack#6019",
    reason="The kernel hands out ports of its ephemeral range: a listener may find its port in use.",
    fix="Reserve them: sysctl net.ipv4.ip_local_reserved_ports.",
)
def _ephemeral(plan: Plan) -> Iterator[str]:
    low, high = 32768, 60999
    names = [name for name, knob in plan.recipe.sections["ports"].items() if low <= int(knob.value) <= high]
    if names:
        yield f"{', '.join(names)} lie between {low} and {high}"


@rule(
    "data-parallel-group",
    "deny",
    source="vLLM serve; MAD#205",
    reason="DP ranks that overlap or leave one out hang the start; a headless engine may not own rank 0.",
    fix="Worker: start rank = DP ranks of the master, headless. Master: API servers, port.",
)
def _group(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        local, size = number(launch, "--data-parallel-size-local"), number(launch, "--data-parallel-size")
        start = number(launch, "--data-parallel-start-rank")
        headless = launch.flag("--headless") is not None
        if local is None or size is None or local * 2 != size:
            yield f"{launch.role}: {local} DP ranks of {size}, two nodes have to make all"
        if headless != (not launch.node.master):
            yield f"{launch.role}: --headless is for workers, and for all of them"
        if headless and start != local:
            yield f"{launch.role}: starts at rank {start}, the master owns {local}"
        if headless and launch.flag("--api-server-count") is not None:
            yield f"{launch.role}: --headless and --api-server-count exclude each other"
        master = plan.cluster.node(f"{launch.node.pool}_master").address
        if launch.flag("--data-parallel-address") != master:
            yield f"{launch.role}: joins {launch.flag('--data-parallel-address')}, its master is {master}"


@rule(
    "api-servers",
    "deny",
    source="recipe",
    reason="More API servers than DP ranks do not start.",
    fix="flags.master.--api-server-count <= DP.",
)
def _servers(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        servers, size = number(launch, "--api-server-count"), number(launch, "--data-parallel-size")
        if servers and size and servers > size:
            yield f"{launch.role}: {servers} API servers for {size} DP ranks"


@rule(
    "rails",
    "deny",
    source="recipe; MAD docs",
    reason="A wrong list ends in 'no transport available for peer', or silently in TCP.",
    fix="List the data rails, not management ports; the same in MORI_RDMA_DEVICES and NCCL_IB_HCA.",
)
def _rails(plan: Plan) -> Iterator[str]:
    if plan.cluster.simulated:
        return
    if len(set(plan.cluster.rails)) != plan.recipe.platform.gpus_per_node:
        yield f"{len(set(plan.cluster.rails))} rails for {plan.recipe.platform.gpus_per_node} GPUs"
    for launch in plan.launches:
        env = launch.variables
        nccl = env.get("NCCL_IB_HCA", "").removeprefix("=")  # "=" takes names whole, else they are prefixes
        if env.get("MORI_RDMA_DEVICES") != nccl or env.get("NCCL_IB_DISABLE") == "1":
            yield f"{launch.role}: MoRI and NCCL disagree about the rails, or NCCL's are off"


@rule(
    "fabric-as-published",
    "warn",
    source="publication, System Configuration",
    reason="Service levels, queue pairs and relaxed ordering were validated on the other adapter.",
    fix="Check MORI_RDMA_SL, MORI_IO_SL, MORI_NUM_QP_PER_PE and the GID with `doctor`, then gate.",
)
def _fabric(plan: Plan) -> Iterator[str]:
    want, have = plan.recipe.fabric, plan.cluster.fabric_kind
    if want and have != want and not plan.cluster.simulated:
        yield f"{plan.recipe.platform.title} was published with {want} rails, the cluster has {have}"


@rule(
    "verbs-folder-not-mounted",
    "deny",
    source="recipe README",
    reason="Mounting the host's provider folder deadlocked the start of the expert group.",
    fix="Mount the libraries only.",
)
def _folder(plan: Plan) -> Iterator[str]:
    for mount in plan.cluster.userspace:
        if mount.host.startswith("/etc/libibverbs.d"):
            yield mount.host
