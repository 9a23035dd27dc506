"""Real sshd, Slurm and router; only engine and container runtime are played, by the process twin."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cluster_hosts import Hosts

pytestmark = pytest.mark.cluster
SCHEDULERS = ("local", "ssh", "slurm")


def k3(hosts: Hosts, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([hosts.k3repro, "bringup", *words], capture_output=True, text=True, timeout=180)
    assert not check or done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    assert "Traceback" not in done.stderr
    return done


def processes(folder: Path) -> list[str]:
    """Whatever runs with something of this test in its command line."""
    listed = subprocess.run(["ps", "-eo", "pid=,stat=,args="], capture_output=True, text=True).stdout
    mine = [line for line in listed.splitlines() if str(folder) in line and " Z" not in line]
    return [line for line in mine if "ps -eo" not in line]


def listening(hosts: Hosts) -> list[str]:
    """Ports of the plan that anybody listens on, in every namespace."""
    wanted = (
        "20005",
        "30000",
        "36367",
        "13345",
        *(str(base + i) for base in (8405, 61005) for i in range(16)),
    )
    found = []
    for where in ([], *(["ip", "netns", "exec", f"k3t{i}"] for i in range(1, 5))):
        out = subprocess.run([*where, "ss", "-ltnH"], capture_output=True, text=True).stdout
        for line in out.splitlines():
            address, _, port = line.split()[3].rpartition(":")
            if port in wanted and address.startswith(("10.78.", "127.0.0.2", "0.0.0.0", "*")):
                found.append(line)  # another address is somebody else's
    return found


def nothing_left(hosts: Hosts, folder: Path) -> None:
    assert processes(folder) == []
    assert listening(hosts) == []
    assert not list(folder.glob("logs/.run-*"))
    assert not list(folder.glob("state/*/state.json"))
    for lock in folder.glob("state/*/lock"):
        subprocess.run(["flock", "--nonblock", lock, "true"], check=True)
    jobs = subprocess.run(["squeue", "--noheader"], capture_output=True, text=True).stdout
    assert "k3repro-up" not in jobs or " CG " in jobs, jobs


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_up_again_status_and_down(hosts: Hosts, clean: Path, scheduler: str) -> None:
    file = str(hosts.cluster_file(clean, scheduler))
    begun = time.monotonic()
    done = k3(hosts, "up", "--cluster", file, "--no-gate", "--json")
    took = time.monotonic() - begun
    state = json.loads(done.stdout)
    phases = list(dict.fromkeys(event["phase"] for event in state["timeline"]))
    order = ["workers", "masters", "models", "router", "token", "canary", "lanes", "facts", "answering"]
    assert [phase for phase in phases if phase in order] == order
    assert "--moriio-dp-size 8: left out" in done.stderr
    lanes = state["facts"]["startup"]["lanes"]
    assert len(lanes) == 16 and all(lane["agrees"] for lane in lanes)
    again = k3(hosts, "up", "--cluster", file, "--no-gate")
    assert f"already up: serve {state['serve']}" in again.stderr
    status = json.loads(k3(hosts, "status", "--cluster", file, "--json").stdout)
    assert {role: item["alive"] for role, item in status["roles"].items()} == dict.fromkeys(
        [*state["roles"]], True
    )
    down = json.loads(k3(hosts, "down", "--cluster", file, "--json").stdout)
    assert down["serve"] == state["serve"] and down["foreign"] == []
    nothing_left(hosts, clean)
    assert "nothing was started" in k3(hosts, "down", "--cluster", file).stdout
    print(f"\n{scheduler}: up in {took:.1f} s, down in {down['seconds']:.1f} s")


def test_the_gate_passes_and_is_sealed(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    done = k3(hosts, "up", "--cluster", file, "--gate-context", "1000")
    assert "gate passed" in done.stderr
    listed = subprocess.run([hosts.k3repro, "artifacts", "list", "--json"], capture_output=True, text=True)
    assert "bring-up" in listed.stdout and "needle-gate" in listed.stdout
    assert "measured" not in listed.stdout
    k3(hosts, "down", "--cluster", file)
    nothing_left(hosts, clean)


# What is staged, by an override of the recipe -> what the command has to say.
STAGED: dict[str, tuple[str, str, str]] = {
    "a lane without transfer configuration": (
        '"transfer.roles" = ["prefill_master", "decode_master"]', "--unsafe",
        "say nothing of a transfer connector"),
    "missing int4 configuration and wide batches": (
        '"layout.max_num_batched_tokens" = 16384', "--unsafe", "codegen"),
    "a pool that does not hold one request": (
        '"layout.kv_pool_bytes" = 1000000000', "--unsafe", "kv-too-small"),
    "a worker whose master never comes": (
        '"flags.worker.--data-parallel-address" = "10.78.0.99"\n"env.all.K3REPRO_TWIN_FRONT_END_S" = "3"',
        "--unsafe", "front-end"),
    "a router the engines do not ping": (
        '"transfer.extra.proxy_ip" = "10.78.0.2"', "--unsafe", "the router knows 0 prefill"),
    "engines that answer every request with an error": (
        '"env.all.K3REPRO_TWIN_FAIL_REQUESTS" = "1"', "--unsafe", "no token through the router"),
    "an option the engine does not have": (
        '"flags.all.--no-such-option" = "1"', "--unsafe", "died"),
}  # fmt: skip


@pytest.mark.parametrize("what", STAGED)
def test_a_staged_failure_is_caught_by_name(hosts: Hosts, clean: Path, what: str) -> None:
    override, option, said = STAGED[what]
    extra = f'{override}\n"order.register_s" = 8\n"order.answer_s" = 15'
    text = hosts.cluster_file(clean, "ssh").read_text()
    lines = [
        line for line in text.splitlines() if not line.startswith(('"order.register_s"', '"order.answer_s"'))
    ]
    file = clean / "ssh.toml"
    file.write_text("\n".join([*lines, extra, ""]))
    done = k3(hosts, "up", "--cluster", str(file), "--no-gate", option, check=False)
    k3(hosts, "down", "--cluster", str(file))
    nothing_left(hosts, clean)
    assert done.returncode in (1, 3), done.stderr
    assert said in done.stderr, done.stderr[-2000:]


def test_a_denied_plan_is_not_started(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh", extra='"env.all.K3_WRITE_READBACK" = "0"'))
    done = k3(hosts, "up", "--cluster", file, "--no-gate", check=False)
    assert done.returncode == 1 and "readback-barrier" in done.stderr
    assert not (clean / "state").exists()


def test_a_neighbour_is_named_and_never_touched(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    argv = [
        "nsenter",
        "--net=/run/netns/k3t3",
        "python3",
        "-m",
        "http.server",
        "20005",
        "--bind",
        "10.78.0.3",
    ]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as neighbour:
        try:
            time.sleep(1)
            done = k3(hosts, "up", "--cluster", file, "--no-gate", check=False)
            assert done.returncode == 3
            assert "k3t3: port 20005" in done.stderr and "python3" in done.stderr
            down = json.loads(k3(hosts, "down", "--cluster", file, "--json").stdout)
            assert [item["what"] for item in down["foreign"]] == ["port 20005"]
            assert neighbour.poll() is None
        finally:
            neighbour.kill()
    nothing_left(hosts, clean)


def test_a_role_that_dies_is_reported(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    state: dict[str, Any] = json.loads(k3(hosts, "up", "--cluster", file, "--no-gate", "--json").stdout)
    os.kill(int(state["roles"]["decode_worker"]["started"]["pid"]), signal.SIGKILL)
    time.sleep(1)
    done = k3(hosts, "status", "--cluster", file, check=False)
    assert done.returncode == 1 and "a role is gone" in done.stderr
    k3(hosts, "down", "--cluster", file, "--no-drain")
    nothing_left(hosts, clean)


@pytest.mark.parametrize(("scheduler", "kills"), [("local", 20), ("ssh", 4), ("slurm", 4)])
def test_up_killed_at_random_moments_then_down(hosts: Hosts, clean: Path, scheduler: str, kills: int) -> None:
    file = str(hosts.cluster_file(clean, scheduler))
    dice = random.Random(7)
    reached = []
    for _ in range(kills):
        argv = [hosts.k3repro, "bringup", "up", "--cluster", file, "--no-gate"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as up:
            time.sleep(dice.uniform(0.5, 12.0))
            up.send_signal(signal.SIGKILL)
            said = up.communicate()[1].splitlines()
        reached.append(said[-1].partition(":")[0] if said else "")
        k3(hosts, "down", "--cluster", file, "--no-drain")
        nothing_left(hosts, clean)
    assert len(set(reached)) > 1, reached  # the moments were different ones
    print(f"\n{scheduler}: killed in {sorted(reached)}")


def test_doctor_over_ssh_looks_at_four_nodes(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    argv = [hosts.k3repro, "doctor", "--cluster", file, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    document = json.loads(done.stdout)
    reachable = [cell for cell in document["cells"] if cell["check"] == "reachable"]
    assert [cell["state"] for cell in reachable] == ["ok"] * 4
    assert {cell["state"] for cell in document["cells"] if cell["check"] == "clock"} == {"ok"}
    print(f"\ndoctor over ssh: {document['seconds']:.1f} s")


def test_interrupted_up_can_be_looked_at_and_taken_down(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    argv = [hosts.k3repro, "bringup", "up", "--cluster", file, "--no-gate"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as up:
        assert up.stderr is not None
        for line in up.stderr:
            if line.startswith("masters: started"):
                up.send_signal(signal.SIGINT)
                break
        assert up.wait(60) != 0
    status = json.loads(k3(hosts, "status", "--cluster", file, "--json", check=False).stdout)
    assert set(status["roles"]) == {"prefill_worker", "decode_worker", "prefill_master", "decode_master"}
    again = k3(hosts, "up", "--cluster", file, "--no-gate")
    assert "taking it down first" in again.stderr and "answering" in again.stderr
    k3(hosts, "down", "--cluster", file)
    nothing_left(hosts, clean)
