"""Rules from public reports of hybrid models behind a hand-off, each with its document or issue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from k3repro.bringup._names import engine_of_names, flags_of_engine, nearest, variables_of_engine
from k3repro.bringup._plan import Launch, Plan
from k3repro.bringup._rule import number, rule
from k3repro.bringup._slurm import pyxis_image

_MAD = "ROCm/MAD docs/kimi-k3.md, 4345dfa"


def _hybrid(plan: Plan) -> bool:
    kinds = {kind for layer in plan.recipe.model.layer_kinds for kind in layer.split("+")}
    return bool(kinds & {"kda", "gdn", "mamba2"})


def _connector(launch: Launch) -> str:
    return str(launch.document("--kv-transfer-config").get("kv_connector", ""))


def _caches_prefixes(launch: Launch, plan: Plan) -> bool:
    """What the engine does: hybrids cache prefixes when asked, and from 0.28 unless told not to."""
    if launch.flag("--no-enable-prefix-caching") is not None:
        return False
    version = str(plan.recipe.get("pins", "engine_version")).split(".")
    later = [int(part) for part in version[:2] if part.isdigit()] >= [0, 28]
    return launch.flag("--enable-prefix-caching") is not None or later


@rule(
    "prefix-cache-and-hand-off",
    "deny",
    source="dynamo#12197",
    reason="Decode dies at the first prefix hit: SSM can only have one local block.",
    fix="--no-enable-prefix-caching on both pools while the connector is NIXL.",
)
def _nixl(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        if _hybrid(plan) and "Nixl" in _connector(launch) and _caches_prefixes(launch, plan):
            yield f"{launch.role}: {_connector(launch)} with prefix caching"


@rule(
    "one-block-size",
    "deny",
    source="vllm#42895, vllm#50765, vllm#51527",
    reason="Blocks are handed over whole: prefill and decode have to cut the cache alike.",
    fix="One --block-size, KV dtype, TP and prefix caching on both pools.",
)
def _blocks(plan: Plan) -> Iterator[str]:
    flags = ("--block-size", "--kv-cache-dtype", "--tensor-parallel-size", "--mamba-cache-mode")
    for flag in flags:
        values = {pool: plan.launch(f"{pool}_master").flag(flag) for pool in ("prefill", "decode")}
        if values["prefill"] != values["decode"]:
            yield f"{flag}: prefill {values['prefill']}, decode {values['decode']}"


@rule(
    "offload-needs-align",
    "deny",
    source="vllm#36463, vllm#51094, LMCache#2845, ATOM#2268",
    reason="State is kept at block borders in align mode only; half a restore is wrong output, and silent.",
    fix="--enable-prefix-caching with --mamba-cache-mode align, or no offload.",
)
def _offload(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        offloads = launch.flag("--kv-offloading-size") is not None or "Offload" in _connector(launch)
        mode = launch.flag("--mamba-cache-mode")
        if _hybrid(plan) and offloads and (mode not in (None, "align") or not _caches_prefixes(launch, plan)):
            yield f"{launch.role}: KV offload with state mode {mode or 'none'}"


@rule(
    "state-layout",
    "deny",
    source="vllm#54489",
    reason="A hand-off of recurrent state needs the DS layout of the convolution state on both sides.",
    fix="env.all.VLLM_SSM_CONV_STATE_LAYOUT = DS.",
)
def _layout(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        have = launch.variables.get("VLLM_SSM_CONV_STATE_LAYOUT", "not set")
        if _hybrid(plan) and _connector(launch) and have != "DS":
            yield f"{launch.role}: {have}"


@rule(
    "slots-below-state-blocks",
    "deny",
    source="vLLM: max_num_seqs exceeds available Mamba cache blocks, in many public logs",
    reason="Each decode sequence takes a state block; with more slots graph capture does not start.",
    fix="Lower layout.max_num_seqs to the blocks of the pool, or enlarge layout.kv_pool_bytes.",
)
def _slots(plan: Plan) -> Iterator[str]:
    from k3repro.capacity import Engine, block_law

    layout = plan.recipe.layout
    if not _hybrid(plan) or layout.kv_pool_bytes <= 0:
        return
    engine = Engine(tp=layout.tp, kv_dtype=layout.kv_dtype, prefix_caching=layout.prefix_caching)
    blocks = block_law(plan.recipe.model, engine).pool_blocks(layout.kv_pool_bytes)
    for launch in plan.launches:
        slots = number(launch, "--max-num-seqs") or 1024
        if slots > blocks:
            yield f"{launch.role}: {slots} slots, {blocks} state blocks"


@rule(
    "image-by-digest",
    "warn",
    source=f"{_MAD}: an unpinned image",
    reason="A tag can be another image tomorrow, or on another node today.",
    fix='[container] digest = "sha256:...": `docker` or `podman image inspect` prints it.',
)
def _digest(plan: Plan) -> Iterator[str]:
    cluster = plan.cluster
    if cluster.runtime == "process" or cluster.image.startswith("/") or cluster.simulated:
        return
    if not cluster.digest and "@sha256:" not in cluster.image:
        yield cluster.image


@rule(
    "enroot-digest",
    "warn",
    source="NVIDIA/enroot src/docker.sh, 067079e: [USER@][REGISTRY#]IMAGE[:TAG]",
    reason="enroot up to 3.4 reads no digest: what stands before its @ is taken for a user, or refused.",
    fix="enroot import it once and give the .sqsh file; or ask the site for its enroot version.",
)
def _enroot(plan: Plan) -> Iterator[str]:
    image = pyxis_image(plan.cluster)
    if plan.cluster.runtime == "pyxis" and "@sha256:" in image:
        yield image


@rule(
    "unknown-name",
    "warn",
    source="vLLM 0.32.0 arg_utils.py, cli_args.py and envs.py; MoRI documentation",
    reason="A variable that nobody reads changes nothing; an option that the engine lacks ends its start.",
    fix="Correct the name, unless this build reads it.",
)
def _unknown(plan: Plan) -> Iterator[str]:
    """Names that came with an override; the recipe's own have their source."""
    own: dict[str, set[str]] = {"flags": set(flags_of_engine()), "env": set(variables_of_engine())}
    given: dict[tuple[str, str], str] = {}
    for section, knobs in plan.recipe.sections.items():
        kind = section.partition(".")[0]
        for name, knob in knobs.items() if kind in own else ():
            if knob.source == "override":
                given[kind, name] = section
            else:
                own[kind].add(name)
    for (kind, name), section in given.items():
        plain = name.replace("--no-", "--", 1)
        near = nearest(plain, own[kind])
        if plain not in own[kind] and (near or kind == "flags" or plain.startswith("VLLM_")):
            yield f"{section}.{name}" + (f", perhaps {near}" if near else f": not in {engine_of_names()}")


@rule(
    "aiter-mla-off",
    "deny",
    source=f"{_MAD}: gfx942 specifics",
    reason="The AITER MLA kernel this model needs exists for gfx950 only.",
    fix="env.all.VLLM_ROCM_USE_AITER_MLA = 0.",
)
def _aiter(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        on = launch.variables.get("VLLM_ROCM_USE_AITER_MLA", "1") != "0"
        if plan.recipe.platform.arch == "gfx942" and plan.recipe.model.kda is not None and on:
            yield launch.role


@rule(
    "local-weights",
    "warn",
    source=f"{_MAD}: REQUIRE_LOCAL_WEIGHTS",
    reason="1.5 TB over a shared file system does not load within a usual time limit.",
    fix="Stage the checkpoint on local NVMe and point [paths] model there.",
)
def _weights(plan: Plan) -> Iterator[str]:
    first = plan.cluster.model.split("/")[1:2]
    if first and first[0] in ("home", "nfs", "shared", "shared_inference", "mnt_nfs", "net"):
        yield plan.cluster.model


@rule(
    "kernel-arch",
    "deny",
    source=f"{_MAD}: MORI_GPU_ARCHS pinned to another GPU",
    reason="MoRI would compile its kernels for another GPU.",
    fix="env.all.MORI_GPU_ARCHS = @platform.arch.",
)
def _arch(plan: Plan) -> Iterator[str]:
    for launch in plan.launches:
        have = launch.variables.get("MORI_GPU_ARCHS")
        if have is not None and have != plan.recipe.platform.arch:
            yield f"{launch.role}: {have}, the GPUs are {plan.recipe.platform.arch}"


@rule(
    "unread-keys",
    "warn",
    source="this framework: what an executor, script or check reads",
    reason="Its writer expects something that will not happen.",
    fix="Take it out of the cluster file, or choose the scheduler or runtime that reads it.",
)
def _unread(plan: Plan) -> Iterator[str]:
    """Keys that differ from their default and that nothing reads under this scheduler and runtime."""
    cluster, inside = plan.cluster, plan.cluster.runtime != "process"
    default = {item.name: item.default for item in fields(cluster)}
    readers = {
        "job": cluster.scheduler == "slurm",
        "user": not cluster.unnamed, "port": not cluster.unnamed,
        "known_hosts": not cluster.unnamed, "identity": not cluster.unnamed,
        "image": inside, "userspace": inside, "pull": cluster.detached,
        "digest": inside and not cluster.image.startswith("/"),
    }  # fmt: skip
    for key, read in readers.items():
        if not read and getattr(cluster, key) != default[key]:
            yield f"{key}: not read with scheduler {cluster.scheduler}, runtime {cluster.runtime}"
