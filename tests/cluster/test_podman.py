"""The container path with a real runtime: an image that is empty but for folders, engines played by the twin.

Everything an engine needs is mounted by the runtime's own configuration, so that the commands are the plan's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
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
)

pytestmark = pytest.mark.cluster
IMAGE = "localhost/k3repro-test:1"
FOLDERS = ("usr", "tmp", "etc", "proc", "dev", "sys", "run", "model", "logs", "root")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def configuration(folder: Path, hosts: Hosts) -> str:
    """runc and short limits, because a test machine may allow no more; the host's Python inside."""
    places = {Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), Path(hosts.router).parents[1]}
    places |= {Path(__file__).parents[2], Path(os.path.realpath(sys.executable)).parents[1]}
    mounts = ", ".join(f'"{place}:{place}:ro"' for place in sorted(places) if place.is_dir())
    runtime = "runc" if shutil.which("runc") else "crun"
    return (
        f'[engine]\nruntime = "{runtime}"\ncgroup_manager = "cgroupfs"\n[containers]\n'
        f'default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\nvolumes = [{mounts}]\n'
    )


@pytest.fixture
def image(clean: Path, hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's folder, with an image at hand; NOT RUN where no container runs."""
    if shutil.which("podman") is None:
        pytest.skip("NOT RUN cluster: podman is not installed; `make test-cluster` installs it")
    (clean / "containers.conf").write_text(configuration(clean, hosts))
    monkeypatch.setenv("CONTAINERS_CONF", str(clean / "containers.conf"))
    archive = clean / "image.tar"
    with tarfile.open(archive, "w") as tar:
        for name in (*FOLDERS, *LINKS):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = (tarfile.SYMTYPE if name in LINKS else tarfile.DIRTYPE), 0o755
            entry.linkname = LINKS.get(name, "")
            tar.addfile(entry)
    subprocess.run(["podman", "import", "--quiet", archive, IMAGE], check=True, capture_output=True)
    tried = subprocess.run(
        ["podman", "run", "--rm", "--network", "host", IMAGE, "/bin/sh", "-c", "true"],
        capture_output=True, text=True,
    )  # fmt: skip
    if tried.returncode:
        pytest.skip(f"NOT RUN cluster: podman runs no container here: {tried.stderr.strip()[-200:]}")
    for name in ("model", "logs", "cache"):
        (clean / name).mkdir()
    return clean


FLAGS = ["--network", "host", "--ipc", "host", "--shm-size", "128g", "--cap-add", "SYS_PTRACE"]


def cluster_file(hosts: Hosts, folder: Path, extra: str = "", scheduler: str = "local") -> str:
    """The recipe's flags for containers without devices and limits, which a test machine may not have."""
    container = f'runtime = "podman"\nimage = "{IMAGE}"'
    flags = f'"container.flags" = {json.dumps(FLAGS)}\n{extra}'
    return str(hosts.cluster_file(folder, scheduler, extra=flags, container=container))


def containers() -> list[str]:
    return subprocess.run(
        ["podman", "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True
    ).stdout.split()


def test_containers_come_up_answer_and_go(hosts: Hosts, image: Path) -> None:
    file = cluster_file(hosts, image)
    begun = time.monotonic()
    state = json.loads(k3(hosts, "up", "--cluster", file, "--no-gate", "--json").stdout)
    took = time.monotonic() - begun
    assert all(len(state["roles"][role]["started"]["container"]) == 64
               for role in state["roles"] if role != "router")  # fmt: skip
    status = json.loads(k3(hosts, "status", "--cluster", file, "--json").stdout)
    assert len(status["roles"]) == 5 and all(item["alive"] for item in status["roles"].values())
    k3(hosts, "watch", "--cluster", file, "--once")
    down = json.loads(k3(hosts, "down", "--cluster", file, "--json").stdout)
    assert down["foreign"] == [] and containers() == []
    nothing_left(image)
    MEASURED.append(("podman containers: up, down", f"{took:.1f} s, {down['seconds']:.1f} s"))


@pytest.mark.parametrize("end_by", ["scancel", "a role that ends", "the time limit"])
def test_a_job_takes_its_containers_along(hosts: Hosts, image: Path, end_by: str) -> None:
    """Steps that started containers remove them: srun's own SIGTERM would kill those steps first."""
    file = Path(cluster_file(hosts, image, scheduler="slurm"))
    job = submit(hosts, image, str(file))
    try:
        until_it_serves(image, job)
        assert len(containers()) == 4
        if end_by == "a role that ends":
            subprocess.run(["podman", "kill", "k3disagg_decode_worker"], check=True, capture_output=True)
            said = until_it_ends(image, job)
            assert "decode_worker has ended with exit code 137, and the job with it" in said
            assert "vllm_decode_worker.log on k3t4" in said
        elif end_by == "the time limit":
            subprocess.run(["scancel", "--batch", "--signal=TERM", job], check=True)
            until_it_ends(image, job)
    finally:
        subprocess.run(["scancel", job])
    gone(containers)
    gone(lambda: processes(image))


def test_a_strangers_container_is_named_and_left(hosts: Hosts, image: Path) -> None:
    file = cluster_file(hosts, image)
    run = ["podman", "run", "-d", "--network", "host"]
    for name, label in (("k3disagg_old", []), ("other", ["--label", "k3repro.launch=up-0:decode_master"])):
        subprocess.run([*run, "--name", name, *label, IMAGE, "sleep", "100"], check=True, capture_output=True)
    try:
        done = k3(hosts, "up", "--cluster", file, "--no-gate", check=False)
        assert done.returncode == 3 and "container k3disagg_old (started by hand)" in done.stderr
        assert "container other (up-0:decode_master)" in done.stderr
        k3(hosts, "down", "--cluster", file)
        assert sorted(containers()) == ["k3disagg_old", "other"]
        argv = [hosts.k3repro, "doctor", "--cluster", file, "--json"]
        cells = json.loads(subprocess.run(argv, capture_output=True, text=True).stdout)["cells"]
        found = {cell["check"]: cell for cell in cells}
        assert found["leftovers"]["state"] == "bad" and found["image"]["state"] == "ok"
    finally:
        subprocess.run(["podman", "rm", "-f", "-t", "0", "k3disagg_old", "other"], capture_output=True)
    nothing_left(image)


def test_a_library_the_host_lacks_is_named_before_the_runtime_makes_a_folder_of_it(
    hosts: Hosts, image: Path
) -> None:
    file = Path(cluster_file(hosts, image))
    missing = image / "libbnxt_re.so"
    mount = f'userspace = [{{ host = "{missing}", container = "/usr/lib/libbnxt_re.so" }}]'
    file.write_text(file.read_text().replace("gid = 0", f"gid = 0\n{mount}"))
    done = k3(hosts, "up", "--cluster", str(file), "--no-gate", check=False)
    assert done.returncode == 3 and f"no regular file {missing}" in done.stderr
    k3(hosts, "down", "--cluster", str(file))
    assert not missing.exists() and containers() == []
    nothing_left(image)


@pytest.mark.parametrize("role", ["router", "decode_worker"])
def test_what_dies_in_a_container_is_reported(hosts: Hosts, image: Path, role: str) -> None:
    file = cluster_file(hosts, image)
    k3(hosts, "up", "--cluster", file, "--no-gate")
    if role == "router":
        pid = (image / "logs/.router-pid").read_text().strip()
        kill = ["podman", "exec", "k3disagg_prefill_master", "/bin/sh", "-c", f"kill -9 {pid}"]
    else:
        kill = ["podman", "kill", f"k3disagg_{role}"]
    subprocess.run(kill, check=True, capture_output=True)
    time.sleep(1)
    status = json.loads(k3(hosts, "status", "--cluster", file, "--json", check=False).stdout)
    assert not status["roles"][role]["alive"]
    k3(hosts, "down", "--cluster", file, "--no-drain")
    assert containers() == []
    nothing_left(image)
