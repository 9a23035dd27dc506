"""What is said of nodes, on played answers; and stopping, on real processes of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from k3repro.bringup import Cluster, Local, Owner, State, StateFile, first_errors, load_cluster, make_executor
from k3repro.bringup._node_status import (
    owners_script,
    read_owners,
    read_status,
    registered,
    status_script,
    stop_script,
    summary,
)
from k3repro.bringup._script import run_file, tombstone
from k3repro.errors import MachineError


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    loaded = load_cluster("mi325x-thor2")
    (tmp_path / "logs").mkdir()
    return replace(loaded, scheduler="local", runtime="process", logs=str(tmp_path / "logs"))


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def run(cluster: Cluster, script: str) -> str:
    result = asyncio.run(Local().run(cluster.nodes[0], script))
    assert result.code == 0, result.err
    return result.out


def spawn(started: list[subprocess.Popen[bytes]], code: str = "", mark: str = "") -> subprocess.Popen[bytes]:
    """A process that has said that it runs: before that, /proc shows no environment of it yet."""
    environment = {**os.environ, **({"K3REPRO_LAUNCH": mark} if mark else {})}
    argv = [sys.executable, "-c", f"import time; {code}print(flush=True); time.sleep(600)"]
    process = subprocess.Popen(argv, env=environment, start_new_session=True, stdout=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None and process.stdout.readline() == b"\n"
    process.stdout.close()
    return process


@pytest.fixture
def serve() -> str:
    """A name of its own: marks are looked for on the whole machine, where this test may run twice."""
    return f"up-{secrets.token_hex(4)}"


def start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]


DEAF = "import signal; signal.signal(15, signal.SIG_IGN); "


def test_only_what_carries_the_mark_is_stopped(
    cluster: Cluster, started: list[subprocess.Popen[bytes]], serve: str
) -> None:
    # The second name begins with the first: a mark is compared whole.
    mine, other = (spawn(started, mark=f"{name}:decode_master") for name in (serve, f"{serve}0"))
    worker, plain = spawn(started, mark=f"{serve}:decode_worker"), spawn(started)
    out = run(cluster, stop_script(cluster, serve, ["decode_master"], 5, tombstone(cluster, serve)))
    assert out.split() == ["killed", "0", "left", "0"]
    assert mine.wait(600) == -signal.SIGTERM
    assert [process.poll() for process in (other, worker, plain)] == [None] * 3
    assert Path(tombstone(cluster, serve)).exists()


def test_what_ignores_sigterm_is_killed_after_the_grace(
    cluster: Cluster, started: list[subprocess.Popen[bytes]], serve: str
) -> None:
    process = spawn(started, DEAF, f"{serve}:router")
    out = run(cluster, stop_script(cluster, serve, ["router"], 0.4, tombstone(cluster, serve)))
    assert out.split() == ["killed", "1", "left", "0"]
    assert process.wait(600) == -signal.SIGKILL


def test_a_process_that_lost_its_mark_is_found_by_pid_and_start_time(
    cluster: Cluster, started: list[subprocess.Popen[bytes]], serve: str
) -> None:
    # Engines and router write their title over the environment; the session of the run file finds them.
    process, twin = spawn(started), spawn(started)
    Path(run_file(cluster, f"{serve}:router")).write_text(f"{process.pid} {start_time(process.pid)}\n")
    # A pid that somebody else has now: the recorded start time is another one.
    Path(run_file(cluster, f"{serve}:decode_master")).write_text(f"{twin.pid} 12345\n")
    roles = ["router", "decode_master"]
    out = run(cluster, stop_script(cluster, serve, roles, 5, tombstone(cluster, serve)))
    assert out.split() == ["killed", "0", "left", "0"]
    assert process.wait(600) == -signal.SIGTERM and twin.poll() is None
    assert not Path(run_file(cluster, f"{serve}:router")).exists()


def test_owners_of_marks_and_ports(
    cluster: Cluster, started: list[subprocess.Popen[bytes]], serve: str
) -> None:
    with socket.create_server(("127.0.0.77", 0)) as listener:
        port = listener.getsockname()[1]
        marked = spawn(started, mark=f"{serve}:decode_master")
        node = replace(cluster.nodes[0], address="127.0.0.77")
        out = run(cluster, owners_script(cluster, [port]))
    found = read_owners(node, out)
    assert Owner(node.host, f"serve {serve}:decode_master", f"pid {marked.pid}") in found
    assert any(item.what == f"port {port}" and str(os.getpid()) in item.owner for item in found)
    elsewhere = replace(node, address="127.0.0.78")
    assert not [item for item in read_owners(elsewhere, out) if item.what == f"port {port}"]
    assert not [item for item in read_owners(node, out, serve=serve) if serve in item.what]


LOG = """INFO starting
WARNING Failed to import Triton kernels: ERROR no module
(EngineCore_DP3 pid=7) ERROR 10-01 [x.py:1] ValueError: the first thing that went wrong
RuntimeError: NCCL error in: later
Engine core initialization failed. See root cause above.
"""


def test_the_first_error_is_reported_not_the_last(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "vllm_decode_worker.log"
    log.write_text(LOG)
    out = run(cluster, status_script(cluster, "up-1", {"decode_worker": str(log)}))
    status = read_status(cluster.nodes[1], out)["decode_worker"]
    assert not status.alive
    assert status.first_error == (3, LOG.splitlines()[2])
    assert status.fatal == (4, LOG.splitlines()[3])
    assert first_errors([status]) == [("dw", "decode_worker", 3, "error", LOG.splitlines()[2])]


def test_a_log_that_is_not_there_yet_or_is_binary(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "logs" / "b.log").write_bytes(b"\xff\x00ERROR: \x1b[31mred\x1b[0m\n")
    roles = {"decode_worker": str(tmp_path / "no.log"), "router": str(tmp_path / "logs" / "b.log")}
    found = read_status(cluster.nodes[0], run(cluster, status_script(cluster, "up-1", roles)))
    assert found["decode_worker"].first_error is None
    assert found["router"].first_error is not None and "\x1b" not in found["router"].first_error[1]


def test_who_is_registered_follows_the_last_word() -> None:
    adds = [
        "Add Prefill [HTTP:a:1, ZMQ:x]",
        "Add Decode [HTTP:b:1, ZMQ:y]",
        "Remove Decode [HTTP:b:1, ZMQ:y, expired]",
    ]
    assert registered(adds) == {"Prefill": {"a:1"}, "Decode": set()}
    assert registered([*adds, "Add Decode [HTTP:b:1, ZMQ:y]"])["Decode"] == {"b:1"}


def test_ports_of_one_owner_are_one_line() -> None:
    owners = [Owner("n", f"port {8405 + i}", "x pid 1") for i in range(6)] + [
        Owner("n", "serve up-1:a", "pid 2")
    ]
    assert summary(owners) == [
        "n: serve up-1:a (pid 2)",
        "n: port 8405, 8406, 8407, 8408 and 2 more (x pid 1)",
    ]


def state(name: str = "c") -> State:
    return State("up-1", name, "text", "digest", "new", "http://x", [1], 1.0, 1.0)


def test_state_survives_and_a_torn_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path))
    file = StateFile("c")
    assert file.load() is None
    written = state()
    written.event("workers", "started")
    file.save(written)
    assert file.load() == written
    done = file.finish(written, {"seconds": 1})
    assert file.load() is None and json.loads(done.read_text())["down"] == {"seconds": 1}
    assert not (tmp_path / "c" / "state.previous.json").exists()
    (tmp_path / "c" / "state.json").write_text('{"serve": ')
    with pytest.raises(MachineError, match="cannot be read"):
        file.load()


BROKEN = ["", "[]", "{}", '{"serve":', "\x00\x00", "null", "up-1"]
WRONG: list[dict[str, object]] = [
    {"serve": "$(touch x)"}, {"serve": 7}, {"roles": [1]}, {"roles": {"router": {"host": "a"}}},
    {"ports": ["; touch x"]}, {"facts": []}, {"timeline": "x"}, {"unknown": 1}, {"cluster_text": 7},
    {"roles": {"$(touch x)": {"host": "a", "log": "b"}}}, {"grace_s": "1"}, {"drain_s": -1}, {"job": "1 x"},
    {"url": None}, {"phase": 3},
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        *BROKEN,
        *(
            json.dumps(asdict(State("up-1", "c", "t", "d", "new", "u", [1], 1.0, 1.0)) | item)
            for item in WRONG
        ),
    ],
)
def test_an_unreadable_state_gives_way_to_the_one_before(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path))
    file, written = StateFile("c"), state()
    written.event("workers", "starting")
    file.save(written)
    written.event("workers", "started")
    file.save(written)
    (tmp_path / "c" / "state.json").write_text(text)
    found = file.load()
    assert found is not None and found.serve == "up-1" and len(found.timeline) == 1
    (tmp_path / "c" / "state.previous.json").unlink()
    with pytest.raises(MachineError, match="cannot be read"):
        file.load()


def test_two_commands_exclude_each_other_and_death_frees_the_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path))
    code = (
        "import time\nfrom k3repro.bringup import StateFile\n"
        "with StateFile('c').locked():\n print('held', flush=True)\n time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(MachineError, match=str(holder.pid)), StateFile("c").locked():
            pass
        holder.kill()
        holder.wait()
        with StateFile("c").locked():
            pass


def test_a_script_that_hangs_is_an_error_with_the_node(cluster: Cluster) -> None:
    with pytest.raises(MachineError, match="no answer within"):
        asyncio.run(Local().run(cluster.nodes[0], "sleep 30", timeout_s=0.3))


def test_slurm_needs_an_allocation(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(MachineError, match="no Slurm allocation"):
        make_executor(replace(cluster, scheduler="slurm"))
