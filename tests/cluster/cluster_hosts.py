"""What the tests of this folder run on: hosts, and cluster files for twin engines on them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = HERE / "cluster.sh"
MEASURED: list[tuple[str, str]] = []  # (what, how long or how often), printed at the end of the run


@dataclass(frozen=True)
class Hosts:
    """The folder with keys, known hosts and Slurm's configuration."""

    folder: Path
    router: str
    k3repro: str = str(Path(sys.prefix) / "bin" / "k3repro")

    def cluster_file(
        self, folder: Path, scheduler: str, *, extra: str = "", platform: str = "mi325x", engine: str = "",
        container: str = 'runtime = "process"', count: bool = False, slurm: str = "",
    ) -> Path:  # fmt: skip
        """A cluster file for twin engines on these hosts, or on this machine for "local"."""
        local = scheduler == "local"
        address = "127.0.0.{}" if local else "10.78.0.{}"
        offset = 20 if local else 0
        roles = ("prefill_master", "prefill_worker", "decode_master", "decode_worker")
        nodes = "\n".join(
            f'{role} = {{ host = "k3t{i}", address = "{address.format(i + offset)}" }}'
            for i, role in enumerate(roles, start=1)
        )
        nodes = "count = 4" if count else nodes
        keys = f'known_hosts = "{self.folder}/known_hosts"\nidentity = "{self.folder}/id"\n'
        ssh = f'[ssh]\nuser = "root"\n{keys}'
        # Long enough for any load: a test whose failure is a wait running out brings its own.
        usual = {"order.ready_s": 180, "order.register_s": 90, "order.answer_s": 120}
        waits = "\n".join(f'"{key}" = {value}' for key, value in usual.items() if key not in extra)
        argv = f'["{engine}"]' if engine else f'["{self.k3repro}", "twin", "engine", "serve"]'
        text = f"""name = "{folder.name.replace("_", "-")}-{scheduler}"
recipe = "kimi-k3-{platform}"
scheduler = "{scheduler}"
[nodes]
{nodes}
{ssh if scheduler == "ssh" else ""}
{f"[slurm]{chr(10)}{slurm}" if slurm else ""}
[fabric]
kind = "twin"
rails = []
interface = "eth0"
gid = 0
[container]
{container}
engine = {argv}
router = ["{self.router}"]
[paths]
model = "{folder}/model"
logs = "{folder}/logs"
cache = "{folder}/cache"
[twin]
simulated = true
{extra if "sysroot" in extra else ""}
[recipe_overrides]
"env.all.VLLM_HOST_IP" = "@node.address"
"env.all.K3REPRO_TWIN_PLATFORM" = "{platform}"
"env.all.K3REPRO_TWIN_TIME_SCALE" = "50"
"env.all.K3REPRO_TWIN_DRAIN_S" = "0.5"
"env.all.K3REPRO_TWIN_PING_S" = "1"
"order.alive_s" = 1
"order.poll_s" = 0.3
{waits}
"order.grace_s" = 10
"order.drain_s" = 10
{extra if "sysroot" not in extra else ""}
"""
        path = folder / f"{scheduler}.toml"
        path.write_text(text)
        return path


def k3(hosts: Hosts, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`k3repro bringup ...`; never a traceback."""
    done = subprocess.run([hosts.k3repro, "bringup", *words], capture_output=True, text=True, timeout=400)
    assert not check or done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
    assert "Traceback" not in done.stderr
    return done


def write(hosts: Hosts, folder: Path, file: str) -> Path:
    """The folder of `plan --write` for the router at hand."""
    known = subprocess.run([hosts.router, "--help"], capture_output=True, text=True).stdout
    (folder / "help.txt").write_text(known)
    written = folder / "written"
    k3(hosts, "plan", "--cluster", file, "--write", str(written), "--router-help", str(folder / "help.txt"))
    return written


def submit(hosts: Hosts, folder: Path, file: str) -> str:
    """Job of the plan's batch script."""
    script = write(hosts, folder, file) / "serve.sbatch"
    argv = ["sbatch", "--parsable", f"--chdir={folder}", f"--output={folder}/%j.out", script]
    put = subprocess.run(argv, capture_output=True, text=True)
    assert put.returncode == 0, put.stderr
    return put.stdout.strip()


def until_it_serves(folder: Path, job: str) -> str:
    """What the job's output says by then; a job that ends before is a failure."""
    return _until(folder, job, lambda said: "k3repro: serving at" in said)


def until_it_ends(folder: Path, job: str) -> str:
    """What the job's output says at its end."""
    return _until(folder, job, lambda _: _state(job) not in {"CONFIGURING", "RUNNING", "COMPLETING"})


def _until(folder: Path, job: str, ready: Callable[[str], bool]) -> str:
    end = time.monotonic() + 400
    while True:
        said = output.read_text() if (output := folder / f"{job}.out").exists() else ""
        if ready(said):
            return said
        ended = "has ended" in said.partition("serving at")[0]
        time.sleep(3 if ended else 0.5)  # the last lines of a log follow
        assert time.monotonic() < end and not ended, output.read_text()[-5000:] if said else "no output"


def _state(job: str) -> str:
    said = subprocess.run(["scontrol", "show", "job", job], capture_output=True, text=True).stdout
    return said.partition("JobState=")[2].split()[0]


def gone(left: Callable[[], list[str]]) -> None:
    """Wait until nothing is left; what is left after two minutes fails the test."""
    end = time.monotonic() + 120
    while left() and time.monotonic() < end:
        time.sleep(0.5)
    assert left() == []


def processes(folder: Path) -> list[str]:
    """Whatever runs with something of this test in its command line."""
    listed = subprocess.run(["ps", "-eo", "pid=,stat=,args="], capture_output=True, text=True).stdout
    mine = [line for line in listed.splitlines() if str(folder) in line and " Z" not in line]
    return [line for line in mine if "ps -eo" not in line]


def listening() -> list[str]:
    """Ports of the plan that anybody listens on, in every namespace."""
    single = ("20005", "30000", "36367", "13345")
    wanted = (*single, *(str(base + i) for base in (8405, 61005) for i in range(16)))
    found = []
    for where in ([], *(["ip", "netns", "exec", f"k3t{i}"] for i in range(1, 5))):
        out = subprocess.run([*where, "ss", "-ltnH"], capture_output=True, text=True).stdout
        for line in out.splitlines():
            address, _, port = line.split()[3].rpartition(":")
            if port in wanted and address.startswith(("10.78.", "127.0.0.2", "0.0.0.0", "*")):
                found.append(line)  # another address is somebody else's
    return found


def nothing_left(folder: Path) -> None:
    """No process, port, run file, state, lock or allocation."""
    assert processes(folder) == []
    assert listening() == []
    assert not list(folder.glob("logs/.run-*"))
    assert not list(folder.glob("logs/.router-pid"))
    assert not list(folder.glob("state/*/state*.json"))
    for lock in folder.glob("state/*/lock"):
        subprocess.run(["flock", "--nonblock", lock, "true"], check=True)
    jobs = subprocess.run(["squeue", "--noheader"], capture_output=True, text=True).stdout
    assert "k3repro-up" not in jobs or " CG " in jobs, jobs
