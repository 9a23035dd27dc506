"""Failures staged on real hosts: `up` names each and leaves nothing; what it cannot see, `watch` names.

The table in docs/bringup.md lists the failures of the recipe, and which test here or elsewhere stages each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from cluster_hosts import Hosts, k3, nothing_left

from k3repro.bringup import State, launch_script, load_cluster, load_recipe, make_plan

pytestmark = pytest.mark.cluster

# What is staged, by an override of the recipe -> what the command has to say.
STAGED: dict[str, tuple[str, str]] = {
    "a lane without transfer configuration": (
        '"transfer.roles" = ["prefill_master", "decode_master"]',
        "say nothing of a transfer connector"),
    "missing int4 configuration and wide batches": (
        '"layout.max_num_batched_tokens" = 16384', "codegen"),
    "a pool that does not hold one request": (
        '"layout.kv_pool_bytes" = 1000000000', "kv-too-small"),
    "a worker whose master never comes": (
        '"flags.worker.--data-parallel-address" = "10.78.0.99"\n"env.all.K3REPRO_TWIN_FRONT_END_S" = "3"',
        "front-end"),
    "a router the engines do not ping": (
        '"transfer.extra.proxy_ip" = "10.78.0.2"\n"order.register_s" = 8', "the router knows 0 prefill"),
    "engines that answer every request with an error": (
        '"env.all.K3REPRO_TWIN_FAIL_REQUESTS" = "1"', "no token through the router"),
    "pools that serve under two names": (
        '"flags.decode.--served-model-name" = "other"',
        "no token through the router: failed_http: HTTP 404"),
    "an option the engine does not have": (
        '"flags.all.--no-such-option" = "1"', "died"),
}  # fmt: skip


def staged(hosts: Hosts, clean: Path, said: str, **options: str) -> subprocess.CompletedProcess[str]:
    """`up` has to say it, and `down` leaves nothing."""
    file = hosts.cluster_file(clean, "ssh", **options)
    done = k3(hosts, "up", "--cluster", str(file), "--no-gate", "--unsafe", check=False)
    k3(hosts, "down", "--cluster", str(file))
    nothing_left(clean)
    assert done.returncode in (1, 3), done.stderr
    assert said in done.stderr, done.stderr[-2000:]
    return done


@pytest.mark.parametrize("what", STAGED)
def test_a_staged_failure_is_caught_by_name(hosts: Hosts, clean: Path, what: str) -> None:
    override, said = STAGED[what]
    staged(hosts, clean, said, extra=override)


# Lines no twin prints, because they need the hardware: said by an engine that stays, as the real one may.
SAID = {
    "memory-region": "mori: RegisterRdmaMemoryRegion failed with errno:22",
    "connector-protocol": "mori/io.cpp:88: Assertion `hdr.type == MessageType::RegEndpoint' failed.",
    "verbs-abi": "libibverbs.so.1: version `IBVERBS_PRIVATE_57 not found (required by libbnxt_re.so)",
    "cross-rail": "bnxt_re_resolve_eth_dmac: resolving the destination failed -110",
    "qp-transition": "Assertion failed: ModifyInit2Rtr",
    "fabric": "mori: no transport available for peer 9",
    "heap": "Out of heap memory! Requested: 1073741824",
    "nccl": "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp",
    "hip": "[FATAL ERROR]: HIP failure",
    "free-memory": "Free memory on device cuda:0 (13.1/191.69 GiB) on startup is less than desired GPU memory"
    " utilization",
    "resources": "HSA_STATUS_ERROR_OUT_OF_RESOURCES at KV registration",
    "engine-init": "Engine core initialization failed. See root cause above.",
}


@pytest.mark.parametrize("name", SAID)
def test_a_fatal_line_of_one_node_ends_it_by_name(hosts: Hosts, clean: Path, name: str) -> None:
    engine, line = clean / "engine.sh", clean / "line"
    line.write_text(f"{SAID[name]}\n")
    engine.write_text(
        "#!/bin/sh\necho INFO starting\necho 'WARNING Failed to import Triton kernels: ERROR no module'\n"
        f'case "$*" in *--headless*) cat {line}; echo ERROR a later one;; esac\nexec sleep 60\n'
    )
    engine.chmod(0o755)
    done = staged(hosts, clean, f"line 3 [{name}]: ", engine=str(engine))
    assert "a later one" not in done.stderr


def test_a_port_that_was_taken_after_the_look_keeps_the_first_error(hosts: Hosts, clean: Path) -> None:
    """The listener comes between the look at neighbours and the launch: the engine itself has to say it."""
    engine = clean / "engine.sh"
    engine.write_text(
        '#!/bin/sh\n[ "$(hostname)" != k3t4 ] || {\n'
        "python3 -m http.server 8413 --bind 10.78.0.4 >/dev/null 2>&1 & sleep 1\n"
        f'}}\nexec {hosts.k3repro} twin engine serve "$@"\n'
    )
    engine.chmod(0o755)
    done = staged(hosts, clean, "[port-taken]", engine=str(engine))
    assert "decode_worker" in done.stderr and "8413" in done.stderr


@pytest.mark.parametrize("role", ["decode_worker", "decode_master", "prefill_master", "router"])
def test_a_role_that_dies_is_reported(hosts: Hosts, clean: Path, role: str) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    state: dict[str, Any] = json.loads(k3(hosts, "up", "--cluster", file, "--no-gate", "--json").stdout)
    os.kill(int(state["roles"][role]["started"]["pid"]), signal.SIGKILL)
    time.sleep(1)
    done = k3(hosts, "status", "--cluster", file, check=False)
    assert done.returncode == 1 and "a role is gone" in done.stderr
    watched = k3(hosts, "watch", "--cluster", file, "--once", "--answer", "5", check=False)
    assert watched.returncode == 1 and "role-gone" in watched.stdout and role in watched.stdout
    k3(hosts, "down", "--cluster", file, "--no-drain")
    nothing_left(clean)


def up(hosts: Hosts, clean: Path, extra: str = "") -> tuple[str, dict[str, Any]]:
    file = str(hosts.cluster_file(clean, "ssh", extra=extra))
    done = k3(hosts, "up", "--cluster", file, "--no-gate", "--unsafe", "--json")
    return file, json.loads(done.stdout)


def watched(hosts: Hosts, file: str, *options: str) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Exit code, what was said by name, the whole look."""
    words = ("watch", "--cluster", file, "--once", "--json", "--answer", "8", *options)
    done = k3(hosts, *words, check=False)
    document = json.loads(done.stdout)
    return done.returncode, {item["name"]: item["what"] for item in document["advice"]}, document


def test_the_watch_names_lanes_without_context(hosts: Hosts, clean: Path) -> None:
    file, _ = up(hosts, clean, extra='"transfer.extra.moriio_pod_hosts" = ""')
    code, said, document = watched(hosts, file)
    assert code == 1 and "ranks-without-context" in said, document
    assert "4, 5, 6, 7 of 8" in said["ranks-without-context"]
    k3(hosts, "down", "--cluster", file)
    nothing_left(clean)


def test_the_watch_says_well_of_a_healthy_serve_and_names_a_stopped_worker(hosts: Hosts, clean: Path) -> None:
    file, state = up(hosts, clean)
    code, said, document = watched(hosts, file)
    assert code == 0 and not said and document["canary"] == {"1": [1, 1], "4": [4, 4]}
    assert document["roles_alive"] == [5, 5]
    pid = int(state["roles"]["decode_worker"]["started"]["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        code, said, document = watched(hosts, file)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert code == 1 and {"fabric-degraded", "not-answering", "wedged"} & set(said), document
    k3(hosts, "down", "--cluster", file, "--no-drain")
    nothing_left(clean)


def test_the_watch_names_a_transfer_that_expired(hosts: Hosts, clean: Path) -> None:
    """A prefill whose decode never asks: the client of a hard-killed wave, seen from the engine."""
    file, _ = up(hosts, clean)
    lane = "host:{},handshake:8405,notify:61005"
    identity = (
        f"___prefill_addr_{lane.format('10.78.0.1')}___decode_addr_{lane.format('10.78.0.3')}_{'a' * 32}"
    )
    transfer = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": f"tx-{'b' * 32}",
                "remote_engine_id": None, "remote_block_ids": None, "remote_dp_size": 8, "remote_tp_size": 2,
                "remote_dp_rank": 0}  # fmt: skip
    body = {"model": "kimi-k3", "prompt": "Hello there", "max_tokens": 1, "kv_transfer_params": transfer}
    request = urllib.request.Request(
        "http://10.78.0.1:20005/v1/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "X-Request-ID": identity, "x-data-parallel-rank": "0"},
    )  # fmt: skip
    urllib.request.urlopen(request, timeout=60).read()
    code, said, document = watched(hosts, file)
    assert code == 1 and "deferred-writes-expired" in said, document
    assert "1 deferred writes expired, the first after 60 s" in said["deferred-writes-expired"]
    k3(hosts, "down", "--cluster", file)
    nothing_left(clean)


def _relaunch(hosts: Hosts, clean: Path, file: str, state: State, roles: tuple[str, ...]) -> None:
    """Kill and start roles with the very scripts of the plan, as somebody might by hand."""
    cluster = load_cluster(file)
    plan = make_plan(load_recipe(cluster.recipe), cluster)
    for role in roles:
        os.kill(int(state.roles[role]["started"]["pid"]), signal.SIGKILL)
    time.sleep(1)
    for role in roles:
        launch = plan.launch(role)
        argv = ["nsenter", f"--net=/run/netns/{launch.node.host}", "sh", "-s"]
        script = launch_script(launch, plan, state.serve)
        subprocess.run(argv, input=script, text=True, check=True, capture_output=True)


def test_the_watch_names_a_pool_that_was_restarted_alone(hosts: Hosts, clean: Path) -> None:
    file, document = up(hosts, clean)
    state = State(**document)
    argv = [hosts.k3repro, "bringup", "watch", "--cluster", file, "--every", "1", "--answer", "6",
            "--keep-going", "--json"]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        guard = threading.Timer(240, watch.kill)  # a watch that falls silent ends the test, not the run
        guard.start()
        try:
            assert json.loads(watch.stdout.readline())["ok"]
            assert json.loads(watch.stdout.readline())["ok"]
            _relaunch(hosts, clean, file, state, ("decode_worker", "decode_master"))
            end, said = time.monotonic() + 60, set()
            while time.monotonic() < end and "pool-restarted-alone" not in said:
                said |= {item["name"] for item in json.loads(watch.stdout.readline())["advice"]}
        finally:
            guard.cancel()
            watch.kill()
    assert "pool-restarted-alone" in said and {"not-answering", "fabric-degraded"} & said, said
    k3(hosts, "down", "--cluster", file, "--no-drain")
    nothing_left(clean)
