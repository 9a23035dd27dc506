"""Each rule is broken by a recipe, and by nothing else in the shipped recipes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from k3repro.bringup import (
    RULES,
    Mount,
    Plan,
    check_plan,
    engine_rules,
    load_cluster,
    load_recipe,
    make_plan,
    rules_for,
)
from k3repro.errors import InputError

EXPECTED = {
    "image-by-digest",
    "fused-activation",
    "tuned-rows",
    "router-request-timeout",
    "ports-not-ephemeral",
}


def plan(overrides: dict[str, Any] | None = None, cluster: str = "mi300x-cx7", **options: Any) -> Plan:
    loaded = load_cluster(cluster)
    loaded = replace(loaded, **options.pop("cluster_fields", {}))
    return make_plan(load_recipe(loaded.recipe).with_overrides(overrides or {}), loaded, **options)


def broken(made: Plan) -> set[str]:
    return {item.id for item in check_plan(made)}


@pytest.mark.parametrize("cluster", ["mi300x-cx7", "mi325x-thor2"])
def test_the_shipped_recipes_break_only_what_is_known(cluster: str) -> None:
    found = check_plan(plan(cluster=cluster))
    assert {item.id for item in found} == EXPECTED
    assert not [item for item in found if item.outcome == "deny"]


NO_TRANSFER = {"transfer.roles": ["prefill_master", "decode_master"]}
GRAPH = '{"cudagraph_mode":"%s","custom_ops":["+quant_fp8"]}'
BREAKING: dict[str, dict[str, Any]] = {
    "transfer-config-on-every-role": NO_TRANSFER,
    "peer-hosts": {"transfer.extra.moriio_pod_hosts": None},
    "transfer-role": {"pool.decode.kv_role": "kv_producer"},
    "write-mode": {"transfer.extra.read_mode": "true"},
    "write-path-knobs": {"transfer.extra.num_workers": 4},
    "readback-barrier": {"env.all.K3_WRITE_READBACK": None},
    "moriio-variables-ignored": {"env.all.VLLM_MORIIO_CONNECTOR_QP_PER_TRANSFER": "2"},
    "ports-apart": {"ports.dp_rpc": 8410},
    "ports-not-ephemeral": {"ports.router": 40000},
    "data-parallel-group": {"flags.worker.--headless": None},
    "api-servers": {"flags.master.--api-server-count": 9},
    "rails": {"env.all.NCCL_IB_HCA": "mlx5_1"},
    "heap-plus-utilisation": {"layout.gpu_memory_utilization": 0.9},
    "pool-and-heap-fit": {"layout.heap_bytes": 2**34, "layout.kv_pool_bytes": 16_000_000_000},
    "one-request-fits": {"layout.max_model_len": 1_000_000},
    "capture-sizes": {"layout.cudagraph": "FULL_AND_PIECEWISE"},
    "graph-mode": {"pool.prefill.cudagraph": "EAGER"},
    "no-bare-eager": {"flags.all.--enforce-eager": True},
    "expandable-segments-off": {"env.all.PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True"},
    "handshake-timeout": {"order.handshake_minutes": 5},
    "engine-compatibility": {"env.all.VLLM_ROCM_USE_AITER_MLA": "1", "pins.engine_version": "0.14.1"},
    "engine-substitutes": {"layout.block_size": 1, "pins.engine_version": "0.15.0"},
    "batched-tokens": {"layout.max_num_batched_tokens": 8192},
    "batched-tokens-validated": {"layout.max_num_batched_tokens": 4096},
    "int4-config": {"flags.all.--quantization-config": None},
    "tuned-rows": {"pins.tuned_archs": "gfx950"},
    "fused-activation": {"pins.aiter_fused_activation": "no"},
    "all2all-backend": {"pool.decode.all2all": "mori"},
    "prefix-caching": {"order.workload": "agentic"},
    "one-model-name": {"flags.decode.--served-model-name": "other"},
    "router-connector": {"router.flags.--kv-connector": "nixl"},
    "router-discovery": {"router.flags.--vllm-discovery-address": None},
    "router-policy": {"router.flags.--policy": "cache_aware"},
    "router-request-timeout": {"router.flags.--request-timeout-secs": 60},
    "prefix-cache-and-hand-off": {
        "transfer.kv_connector": "NixlConnector",
        "flags.all.--no-enable-prefix-caching": None,
        "flags.all.--enable-prefix-caching": True,
    },
    "one-block-size": {"flags.decode.--block-size": 64},
    "offload-needs-align": {"flags.all.--kv-offloading-size": 10},
    "state-layout": {"env.all.VLLM_SSM_CONV_STATE_LAYOUT": None},
    "slots-below-state-blocks": {"layout.max_num_seqs": 512},
    "image-by-digest": {},
    "slots-validated": {"layout.max_num_seqs": 32},
    "waits-as-long-as-the-engine": {"order.ready_s": 3600},
    "unknown-name": {"env.all.VLLM_ROCM_USE_AITTER": "0"},
    "aiter-mla-off": {"env.all.VLLM_ROCM_USE_AITER_MLA": "1"},
    "kernel-arch": {"env.all.MORI_GPU_ARCHS": "gfx950"},
}


@pytest.mark.parametrize("name", BREAKING)
def test_a_recipe_that_breaks_the_rule(name: str) -> None:
    found = [item for item in check_plan(plan(BREAKING[name])) if item.id == name]
    assert found, f"{name} did not notice {BREAKING[name]}"
    assert found[0].reason and found[0].fix and found[0].source
    if RULES[name].outcome != "deny":
        return
    assert name not in broken(plan())


def test_what_a_recipe_cannot_break_is_broken_otherwise() -> None:
    router = plan(router_flags={"--host"})
    assert "router-capability" in broken(router)
    folder = plan(cluster_fields={"userspace": (Mount("/etc/libibverbs.d", "/etc/libibverbs.d"),)})
    assert "verbs-folder-not-mounted" in broken(folder)
    few = plan(cluster_fields={"rails": ("mlx5_0",)})
    assert "rails" in broken(few)
    assert "fabric-as-published" in broken(plan(cluster_fields={"fabric_kind": "bnxt"}))
    assert "local-weights" in broken(plan(cluster_fields={"model": "/nfs/models/Kimi-K3"}))
    assert "unread-keys" in broken(plan(cluster_fields={"runtime": "process"}))


def test_every_rule_has_a_test_that_breaks_it() -> None:
    check_plan(plan())
    otherwise = {"router-capability", "verbs-folder-not-mounted", "fabric-as-published", "local-weights"}
    otherwise |= {"unread-keys", "enroot-digest"}
    assert set(RULES) == set(BREAKING) | otherwise


def test_what_made_a_warning_go_away_is_seen() -> None:
    good = {"pins.aiter_fused_activation": "yes", "pins.tuned_archs": "gfx942",
            "router.flags.--request-timeout-secs": 10**6, "ports.ping": 30367,
            "router.flags.--vllm-discovery-address": "0.0.0.0:30367"}  # fmt: skip
    pinned = {"digest": f"sha256:{'0' * 64}"}
    assert broken(plan(good, cluster_fields=pinned)) == set()


@pytest.mark.parametrize(
    ("heap", "pool", "length", "seqs", "util", "fits"),
    [
        # Recorded on 192 GB: what was refused, and what came up.
        (8 * 2**30, 13_000_000_000, 900_000, 8, 0.85, True),
        (8 * 2**30, 13_000_000_000, 900_000, 8, 0.90, False),
        (16 * 2**30, 16_000_000_000, 900_000, 8, 0.85, False),
    ],
)
def test_the_recorded_refusals_of_the_smaller_platform(
    heap: int, pool: int, length: int, seqs: int, util: float, fits: bool
) -> None:
    fields = {"heap_bytes": heap, "kv_pool_bytes": pool, "max_model_len": length, "max_num_seqs": seqs,
              "gpu_memory_utilization": util}  # fmt: skip
    made = plan({f"layout.{name}": value for name, value in fields.items()})
    denied = [item.id for item in check_plan(made) if item.outcome == "deny"]
    assert (not denied) == fits


MLA = {"attention": "dense-mla", "arch": "gfx942", "aiter": True, "aiter_mla": True, "kv_dtype": "auto"}
# (facts, version, rule or None, outcome): the table of engine claims checked against engine sources.
CASES: list[tuple[dict[str, Any], str, str]] = [
    ({**MLA, "block_size": 16, "heads_per_rank": 16}, "0.14.1", ""),
    ({**MLA, "block_size": 16, "heads_per_rank": 16}, "0.10.2", "dense-mla-block-1-only"),
    ({**MLA, "attention": "sparse-mla", "block_size": 16}, "0.14.1", "sparse-mla-block-1-only"),
    ({**MLA, "attention": "sparse-mla", "block_size": 64}, "0.19.0", ""),
    ({**MLA, "block_size": 16, "heads_per_rank": 8}, "0.14.1", "aiter-mla-heads-16-or-128"),
    ({**MLA, "block_size": 16, "heads_per_rank": 32}, "0.14.1", "aiter-mla-heads-16-or-128"),
    ({**MLA, "block_size": 16, "heads_per_rank": 8}, "0.18.0", ""),
    ({**MLA, "block_size": 16, "heads_per_rank": 12}, "0.27.0", "aiter-mla-heads"),
    ({**MLA, "block_size": 1, "aiter": False, "aiter_mla": False}, "0.15.0", "block-1-turns-aiter-on"),
    ({**MLA, "block_size": 1, "aiter": False, "aiter_mla": False, "heads_per_rank": 8}, "0.14.1",
     "block-1-aiter-heads"),
    ({**MLA, "block_size": 1, "heads_per_rank": 16}, "0.27.0", "later-aiter-breaks-block-1"),
    ({**MLA, "block_size": 1, "heads_per_rank": 16, "attention_backend": "TRITON_MLA"}, "0.14.1",
     "triton-mla-block-1"),
    ({**MLA, "block_size": 16, "kv_offload": True, "heads_per_rank": 16}, "0.14.1", "kv-offload-mla"),
    ({**MLA, "block_size": 16, "kv_offload": True, "heads_per_rank": 16}, "0.19.0", ""),
    ({**MLA, "attention": "sparse-mla", "block_size": 1}, "0.14.1", "sparse-mla-reference-attention"),
    ({**MLA, "block_size": 16, "heads_per_rank": 12, "kv_dtype": "fp8"}, "0.27.0", "aiter-fp8-prefill-heads"),
    ({"attention": "gqa", "kv_offload": True}, "0.14.1", ""),
    ({**MLA, "attention": "sparse-mla", "block_size": 1}, "0.15.0", ""),
    ({**MLA, "aiter": False, "aiter_mla": False, "block_size": 16}, "0.14.1", ""),
    ({**MLA, "attention": "sparse-mla", "aiter": False, "block_size": 1}, "0.15.0", "sparse-mla-needs-aiter"),
    ({**MLA, "attention": "sparse-mla", "kv_dtype": "fp8", "block_size": 1}, "0.14.1", "sparse-mla-fp8-kv"),
    ({"attention": "gqa", "quantization": "fp8", "vision_columns": 538}, "0.14.1",
     "fp8-blanket-vision-shard"),
    ({"attention": "gqa", "quantization": "fp8", "vision_columns": 4304}, "0.14.1", ""),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "version", "name"), CASES)
def test_engine_rules_hold_in_their_versions(facts: dict[str, Any], version: str, name: str) -> None:
    found = {item.id for item in rules_for(facts, version) if item.outcome != "allow"}
    assert name in found if name else not found


def test_every_engine_rule_is_met_and_has_evidence() -> None:
    met = {item.id for facts, version, _ in CASES for item in rules_for(facts, version)}
    assert met == {item.id for item in engine_rules()}
    assert all(item.evidence and item.what for item in engine_rules())
    assert {item.outcome for item in engine_rules()} == {"allow", "deny", "substitutes"}


def test_an_unknown_fact_matches_nothing_and_a_bad_version_is_named() -> None:
    assert rules_for({}, "0.14.1") == []
    with pytest.raises(InputError, match="engine version"):
        rules_for({}, "latest")


def test_all_rules_are_there_on_import() -> None:
    """In a fresh process, before any plan is checked: the public table held 10 of 36."""
    code = "from k3repro.bringup import RULES; print(len(RULES))"
    first = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(first) == len(RULES) >= 36


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("env.all.VLLM_ROCM_USE_AITTER", "VLLM_ROCM_USE_AITER"),
        ("env.all.MORI_RDMA_TCC", "MORI_RDMA_TC"),
        ("env.decode.K3_MLA_SINGLE_SPLITS", "K3_MLA_SINGLE_SPLIT"),
        ("flags.all.--enable-chunked-prefil", "--enable-chunked-prefill"),
        ("flags.all.--max-num-batched-token", "--max-num-batched-tokens"),
        ("flags.all.--no-such-option", "not in vLLM 0.32.0"),
        ("env.all.MY_SWITCH", ""),
        ("env.all.MORI_RDMA_TC", ""),
        ("flags.all.--long-prefill-token-threshold", ""),
        ("flags.all.--no-async-scheduling", ""),
    ],
)
def test_a_name_that_nobody_reads_is_told_with_the_nearest(key: str, near: str) -> None:
    found = [item.what for item in check_plan(plan({key: "1"})) if item.id == "unknown-name"]
    assert [near in what for what in found] == ([True] if near else []), found


def test_rails_taken_by_their_whole_name_are_the_same_rails() -> None:
    assert "rails" not in broken(plan({"env.all.NCCL_IB_HCA": "=@fabric.rails"}))
    assert "rails" in broken(plan({"env.all.NCCL_IB_HCA": "=mlx5_0"}))


def test_a_digest_for_enroot() -> None:
    fields = {"runtime": "pyxis", "digest": f"sha256:{'a' * 64}"}
    assert "enroot-digest" in broken(plan(cluster_fields=fields))
    assert "enroot-digest" not in broken(plan(cluster_fields=fields | {"image": "/images/k3.sqsh"}))
    assert "enroot-digest" not in broken(plan(cluster_fields=fields | {"runtime": "docker"}))


@pytest.mark.parametrize("pool", ["all", "decode"])
def test_of_a_switch_on_and_off_the_later_stands(pool: str) -> None:
    """Both would be on the command line; the engine takes the last, and rules would read the first."""
    made = plan({f"flags.{pool}.--enable-prefix-caching": True})
    for launch in made.launches:
        on = pool == "all" or launch.node.pool == pool
        assert (launch.flag("--enable-prefix-caching") is not None) == on
        assert (launch.flag("--no-enable-prefix-caching") is None) == on
    found = [item.what for item in check_plan(made) if item.id == "prefix-caching"]
    assert len(found) == (4 if pool == "all" else 2)


def test_timeouts_of_the_transfer_reach_the_connector_as_numbers() -> None:
    given = {"transfer.extra.defer_timeout": 1800, "transfer.extra.transfer_timeout": 600.5}
    extra = plan(given).launches[0].document("--kv-transfer-config")["kv_connector_extra_config"]
    assert (extra["defer_timeout"], extra["transfer_timeout"]) == (1800, 600.5)
