"""Real sshd, Slurm and router; only engine and container runtime are played, by the process twin."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster_hosts import (
    MEASURED,
    Hosts,
    gone,
    k3,
    nothing_left,
    processes,
    submit,
    until_it_ends,
    until_it_serves,
    write,
)

pytestmark = pytest.mark.cluster
SCHEDULERS = ("local", "ssh", "slurm")
LINES = 24  # what `up` says until it answers


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_up_again_status_and_down(hosts: Hosts, clean: Path, scheduler: str) -> None:
    file = str(hosts.cluster_file(clean, scheduler))
    begun = time.monotonic()
    done = k3(hosts, "up", "--cluster", file, "--no-gate", "--json")
    took = time.monotonic() - begun
    state = json.loads(done.stdout)
    phases = list(dict.fromkeys(event["phase"] for event in state["timeline"]))
    order = ["workers", "masters", "models", "router", "token", "canary", "ranks", "facts", "answering"]
    assert [phase for phase in phases if phase in order] == order
    assert "--moriio-dp-size 8: left out" in done.stderr
    ranks = state["facts"]["startup"]["ranks"]
    assert len(ranks) == 16 and all(rank["agrees"] for rank in ranks)
    again = k3(hosts, "up", "--cluster", file, "--no-gate")
    assert f"already up: serve {state['serve']}" in again.stderr
    status = json.loads(k3(hosts, "status", "--cluster", file, "--json").stdout)
    assert {role: item["alive"] for role, item in status["roles"].items()} == dict.fromkeys(
        [*state["roles"]], True
    )
    down = json.loads(k3(hosts, "down", "--cluster", file, "--json").stdout)
    assert down["serve"] == state["serve"] and down["foreign"] == []
    nothing_left(clean)
    assert "nothing was started" in k3(hosts, "down", "--cluster", file).stdout
    MEASURED.append((f"{scheduler}: up, down", f"{took:.1f} s, {down['seconds']:.1f} s"))


def test_slurm_chooses_the_nodes(hosts: Hosts, clean: Path) -> None:
    """Four nodes counted, not named: their addresses are those of the fabric's interface."""
    asked = 'account = "lab"\npartition = "main"\ntime_minutes = 30'
    file = str(hosts.cluster_file(clean, "slurm", count=True, slurm=asked))
    state = json.loads(k3(hosts, "up", "--cluster", file, "--no-gate", "--json").stdout)
    assert state["url"] == "http://10.78.0.3:30000"  # the prefill master is the third of the four
    job = subprocess.run(["scontrol", "show", "job", state["job"]], capture_output=True, text=True).stdout
    assert "Account=lab" in job and "TimeLimit=00:30:00" in job
    again = k3(hosts, "up", "--cluster", file, "--no-gate")
    assert f"already up: serve {state['serve']}" in again.stderr
    assert json.loads(k3(hosts, "status", "--cluster", file, "--json").stdout)["roles"]
    k3(hosts, "down", "--cluster", file)
    nothing_left(clean)


@pytest.mark.parametrize("end_by", ["scancel", "a role that ends"])
def test_the_batch_script_runs_as_it_is_written(hosts: Hosts, clean: Path, end_by: str) -> None:
    """`plan --write`, then sbatch: it says that it serves; scancel, or a role that ends, leaves nothing."""
    file = str(hosts.cluster_file(clean, "slurm", count=True))
    job = submit(hosts, clean, file)
    try:
        assert "serving at http://10.78.0.3:30000: one token came" in until_it_serves(clean, job)
        said = k3(hosts, "status", "--cluster", file).stdout
        assert f"batch job {job}: scancel {job}" in said
        if end_by == "a role that ends":
            pid, _ = (clean / "logs" / job / f".run-job-{job}:decode_worker").read_text().split()
            os.kill(int(pid), signal.SIGKILL)
            said = until_it_ends(clean, job)
            assert "decode_worker has ended with exit code 137, and the job with it" in said
            assert f"last lines of {clean}/logs/{job}/vllm_decode_worker.log on k3t" in said
    finally:
        subprocess.run(["scancel", job])
    gone(lambda: processes(clean))


def test_scripts_over_ssh_start_and_stop_a_serve(hosts: Hosts, clean: Path) -> None:
    """`run-over-ssh.sh` until a token came, seen by `status`; a dead role ends it; `stop.sh` the rest."""
    file = str(hosts.cluster_file(clean, "ssh"))
    written = write(hosts, clean, file)
    done = subprocess.run(["sh", written / "run-over-ssh.sh"], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    assert "serving at http://10.78.0.1:30000: one token came" in done.stdout
    said = k3(hosts, "status", "--cluster", file).stdout
    assert all(f"k3t{i}: serve manual:" in said for i in range(1, 5)) and "stop.sh" in said
    assert "serve manual:" in k3(hosts, "down", "--cluster", file).stdout
    done = subprocess.run(["sh", written / "stop.sh"], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    nothing_left(clean)
    broken = written / "20-decode_worker.sh"
    broken.write_text(broken.read_text().replace(" twin engine serve", " twin engine serve --no-such"))
    done = subprocess.run(["sh", written / "run-over-ssh.sh"], capture_output=True, text=True, timeout=400)
    assert done.returncode == 1 and "decode_worker has ended" in done.stderr and "--no-such" in done.stderr
    subprocess.run(["sh", written / "stop.sh"], check=True, capture_output=True, timeout=120)
    nothing_left(clean)


def test_the_gate_passes_and_is_sealed(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    done = k3(hosts, "up", "--cluster", file, "--gate-context", "1000")
    assert "gate passed" in done.stderr
    listed = subprocess.run([hosts.k3repro, "artifacts", "list", "--json"], capture_output=True, text=True)
    assert "bring-up" in listed.stdout and "needle-gate" in listed.stdout
    assert "measured" not in listed.stdout
    k3(hosts, "down", "--cluster", file)
    nothing_left(clean)


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
    nothing_left(clean)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_up_killed_at_random_moments_then_down(hosts: Hosts, clean: Path, scheduler: str) -> None:
    """A moment is a number of lines that `up` has said, each number once, and a random time after.

    Which phase that hits is the machine's business; that nothing is left is the product's.
    """
    kills = int(os.environ.get("K3_KILLS", "20"))
    file = str(hosts.cluster_file(clean, scheduler))
    dice = random.Random(7)
    reached = []
    for number in dice.sample(range(kills), kills):
        argv = [hosts.k3repro, "bringup", "up", "--cluster", file, "--no-gate"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as up:
            assert up.stderr is not None
            lines = round(number * LINES / max(1, kills - 1))
            said = [up.stderr.readline() for _ in range(lines)]
            time.sleep(dice.uniform(0, 1.5))
            up.send_signal(signal.SIGKILL)
            up.communicate()
        reached.append(([line for line in said if line.strip()] or [""])[-1].partition(":")[0])
        k3(hosts, "down", "--cluster", file, "--no-drain")
        nothing_left(clean)
    phases = ", ".join(f"{reached.count(phase)} {phase or 'before a word'}" for phase in sorted(set(reached)))
    MEASURED.append((f"{scheduler}: up killed, then down: nothing left", f"{kills} of {kills} (in {phases})"))


def test_doctor_over_ssh_looks_at_four_nodes(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    argv = [hosts.k3repro, "doctor", "--cluster", file, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    document = json.loads(done.stdout)
    reachable = [cell for cell in document["cells"] if cell["check"] == "reachable"]
    assert [cell["state"] for cell in reachable] == ["ok"] * 4
    assert {cell["state"] for cell in document["cells"] if cell["check"] == "clock"} == {"ok"}
    MEASURED.append(("doctor on four nodes over ssh", f"{document['seconds']:.1f} s"))


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
    nothing_left(clean)


def test_up_on_a_serve_that_lost_a_worker_starts_all_again(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    first = json.loads(k3(hosts, "up", "--cluster", file, "--no-gate", "--json").stdout)
    os.kill(int(first["roles"]["decode_worker"]["started"]["pid"]), signal.SIGKILL)
    time.sleep(1)
    again = k3(hosts, "up", "--cluster", file, "--no-gate", "--json")
    why = next(line for line in again.stderr.splitlines() if "taking it down first" in line)
    assert " has lost " in why and "decode_worker" in why, why
    assert json.loads(again.stdout)["serve"] != first["serve"]
    k3(hosts, "down", "--cluster", file)
    nothing_left(clean)


def test_a_node_that_is_cut_off_keeps_no_other_from_being_stopped(hosts: Hosts, clean: Path) -> None:
    file = str(hosts.cluster_file(clean, "ssh"))
    state = json.loads(k3(hosts, "up", "--cluster", file, "--no-gate", "--json").stdout)
    pids = {role: int(entry["started"]["pid"]) for role, entry in state["roles"].items()}
    subprocess.run(["ip", "link", "set", "k3tv4", "down"], check=True)
    try:
        done = k3(hosts, "down", "--cluster", file, "--no-drain", check=False)
    finally:
        subprocess.run(["ip", "link", "set", "k3tv4", "up"], check=True)
    assert done.returncode == 3 and "k3t4 cannot be reached" in done.stderr
    assert [role for role, pid in pids.items() if Path(f"/proc/{pid}").exists()] == ["decode_worker"]
    k3(hosts, "down", "--cluster", file, "--no-drain")
    nothing_left(clean)


@pytest.mark.parametrize("phase", ["workers: started", "answering: "])
def test_an_allocation_that_ended_is_understood(hosts: Hosts, clean: Path, phase: str) -> None:
    """The time limit, or scancel by hand: its processes go with it, and `down` and `up` go on from there."""
    nodes = ["--no-shell", "--nodes=4", "--nodelist=k3t[1-4]", "--exclusive"]
    granted = subprocess.run(["salloc", *nodes], capture_output=True, text=True, check=True).stderr
    job = granted.rpartition("allocation ")[2].strip()
    file = hosts.cluster_file(clean, "slurm")
    file.write_text(file.read_text() + f'[slurm]\njob = "{job}"\n')
    argv = [hosts.k3repro, "bringup", "up", "--cluster", str(file), "--no-gate"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as up:
        assert up.stderr is not None
        assert any(line.startswith(phase) for line in up.stderr)
        up.kill()
    subprocess.run(["scancel", job], check=True)
    end = time.monotonic() + 60
    while subprocess.run(["squeue", "-h"], capture_output=True).stdout and time.monotonic() < end:
        time.sleep(0.5)
    done = k3(hosts, "down", "--cluster", str(file), "--no-drain")
    assert f"allocation {job} has ended" in done.stderr
    for file in clean.glob("logs/.run-*"):
        file.unlink()  # no node could be asked to; a start time tells each from a later process
    nothing_left(clean)
