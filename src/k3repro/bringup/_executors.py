"""Where scripts run: this machine, a node over ssh, a node of a Slurm allocation.

All three send a script to the standard input of `sh -s`; nothing of a plan is ever a remote argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import re
import shlex
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from k3repro.bringup._cluster import Cluster, Node
from k3repro.bringup._plan import MARK
from k3repro.bringup._sanitise import clean_environment
from k3repro.bringup._script import STARTED
from k3repro.bringup._slurm import address_command, slurm_options, step_options
from k3repro.errors import MachineError, MissingExtra

_MARK = re.compile(r"[a-z0-9-]+:[a-z_]+")


@dataclass(frozen=True, slots=True)
class Result:
    """How a script ended on a node."""

    code: int
    out: str
    err: str


class Executor(Protocol):
    """Runs scripts on nodes."""

    hold: bool

    async def run(self, node: Node, script: str, *, timeout_s: float = 60.0, inside: bool = False) -> Result:
        """Run a script and wait for it; `inside` the image where the scheduler starts it.

        Raises:
            MachineError: the node cannot be reached, or the script took longer than `timeout_s`.
        """
        ...

    async def launch(self, node: Node, script: str, *, mark: str, timeout_s: float = 60.0) -> Result:
        """Run a launch script under a mark, until it has said what it started."""
        ...

    async def close(self) -> None:
        """Give connections back. What was launched keeps running."""
        ...


def _command(mark: str) -> list[str]:
    if not mark:
        return ["sh", "-s"]
    if not _MARK.fullmatch(mark):
        raise MachineError(f"{mark!r} is not a mark")
    return ["env", f"{MARK}={mark}", "sh", "-s"]


class Local:
    """Every node is this machine."""

    hold = False

    async def run(self, node: Node, script: str, *, timeout_s: float = 60.0, inside: bool = False) -> Result:
        """See Executor."""
        return await _spawn(_command(""), script, node, timeout_s)

    async def launch(self, node: Node, script: str, *, mark: str, timeout_s: float = 60.0) -> Result:
        """See Executor."""
        return await _spawn(_command(mark), script, node, timeout_s)

    async def close(self) -> None:
        """Nothing is held."""


async def _spawn(argv: list[str], script: str, node: Node, timeout_s: float) -> Result:
    # A session of its own: Ctrl-C at the terminal must not cut a script in the middle.
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True, env=clean_environment(),
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(process.communicate(script.encode()), timeout_s)
    except TimeoutError:
        # The whole session: a child of the script would hold the pipes, and with them the wait.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise _late(node, timeout_s) from None
    return Result(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _late(node: Node, timeout_s: float) -> MachineError:
    return MachineError(
        f"no answer within {timeout_s:g} s", where=node.host, fix="Log in and look at its load."
    )


class Ssh:
    """Nodes over ssh, one connection each. Host keys are checked against known_hosts, always."""

    hold = False

    def __init__(self, cluster: Cluster) -> None:
        require_extra(cluster)
        import asyncssh

        self._ssh, self._cluster = asyncssh, cluster
        self._connections: dict[str, asyncio.Task[Any]] = {}

    async def _connection(self, node: Node) -> Any:
        if node.host not in self._connections:
            self._connections[node.host] = asyncio.create_task(self._connect(node))
        try:
            return await asyncio.shield(self._connections[node.host])
        except MachineError:
            self._connections.pop(node.host, None)
            raise

    async def _connect(self, node: Node) -> Any:
        cluster = self._cluster
        options: dict[str, Any] = {"port": cluster.port, "connect_timeout": 15, "keepalive_interval": 15}
        if cluster.user:
            options["username"] = cluster.user
        if cluster.known_hosts:
            options["known_hosts"] = cluster.known_hosts
        if cluster.identity:
            options["client_keys"] = [cluster.identity]
        try:
            return await self._ssh.connect(node.address, **options)
        except (OSError, self._ssh.Error) as error:
            user = f"{cluster.user}@" if cluster.user else ""
            fix = f"Try: ssh -p {cluster.port} {user}{node.address} true"
            raise MachineError(
                f"ssh failed: {str(error) or type(error).__name__}", where=node.host, fix=fix
            ) from None

    async def run(self, node: Node, script: str, *, timeout_s: float = 60.0, inside: bool = False) -> Result:
        """See Executor."""
        return await self._run(node, _command(""), script, timeout_s)

    async def launch(self, node: Node, script: str, *, mark: str, timeout_s: float = 60.0) -> Result:
        """See Executor."""
        return await self._run(node, _command(mark), script, timeout_s)

    async def _run(self, node: Node, argv: list[str], script: str, timeout_s: float) -> Result:
        connection = await self._connection(node)
        try:
            done = await asyncio.wait_for(connection.run(" ".join(argv), input=script), timeout_s)
        except TimeoutError:
            raise _late(node, timeout_s) from None
        except (OSError, self._ssh.Error) as error:
            self._connections.pop(node.host, None)
            raise MachineError(
                f"the connection broke: {error}", where=node.host, fix="Run it again."
            ) from None
        code = done.exit_status if done.exit_status is not None else 255
        return Result(code, str(done.stdout or ""), str(done.stderr or ""))

    async def close(self) -> None:
        """Close every connection."""
        for task in self._connections.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()
                await task.result().wait_closed()
        self._connections.clear()


class Slurm:
    """Nodes of one allocation. A step stays for the role's life: cgroups end what a step leaves behind."""

    hold = True

    def __init__(self, cluster: Cluster, job: str, folder: Path) -> None:
        self._cluster, self._job, self._folder = cluster, job, folder

    def _srun(self, node: Node, command: list[str], *, inside: bool = False) -> list[str]:
        command = [*(step_options(self._cluster) if inside else ["--mpi=none"]), *command]
        return [*_step_of(self._job, node.host), *command]

    async def run(self, node: Node, script: str, *, timeout_s: float = 60.0, inside: bool = False) -> Result:
        """See Executor."""
        return await _spawn(self._srun(node, _command(""), inside=inside), script, node, timeout_s)

    async def launch(self, node: Node, script: str, *, mark: str, timeout_s: float = 60.0) -> Result:
        """See Executor. The step's output goes to a file, so that it outlives this process."""
        name = mark.replace(":", "-")
        if self._cluster.runtime == "pyxis":  # it mounts no folder that is not there yet
            folders = f"mkdir -p -- {shlex.join([self._cluster.logs, self._cluster.cache])}\n"
            await self.run(node, folders, timeout_s=timeout_s)
        with tempfile.TemporaryFile() as source, (self._folder / f"{name}.step").open("w+b") as output:
            source.write(script.encode())
            source.seek(0)
            process = await asyncio.create_subprocess_exec(
                *self._srun(node, _command(mark), inside=True), stdin=source, stdout=output, stderr=output,
                start_new_session=True, env=clean_environment(),
            )  # fmt: skip
        end = asyncio.get_running_loop().time() + timeout_s
        while True:
            text = (self._folder / f"{name}.step").read_text(encoding="utf-8", errors="replace")
            if STARTED in text:
                return Result(0, text, "")
            if process.returncode is not None:
                return Result(process.returncode, text, text)
            if asyncio.get_running_loop().time() > end:
                raise _late(node, timeout_s)
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Steps keep running."""


def _step_of(job: str, host: str) -> list[str]:
    """A step beside others on one node, under the limits of that node and not of the one that asks."""
    step = ["srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1", "--quiet", "--propagate=NONE"]
    return [*step, f"--nodelist={host}"]


async def hosts_of(job: str, interface: str) -> list[tuple[str, str]]:
    """The nodes of an allocation in Slurm's order, each with its address on an interface.

    Raises:
        MachineError: Slurm does not name them, or a node has no address there.
    """
    said = await _slurm(["squeue", "--noheader", f"--jobs={job}", "--format=%N"])
    listed = await _slurm(["scontrol", "show", "hostnames", said.out.strip()])
    if listed.code or not listed.out.split():
        raise MachineError(f"Slurm names no nodes: {_first(listed.err or said.err)}", where=job)
    hosts = listed.out.split()
    addresses = await asyncio.gather(*(_address(job, host, interface) for host in hosts))
    return list(zip(hosts, addresses, strict=True))


async def _address(job: str, host: str, interface: str) -> str:
    said = await _slurm([*_step_of(job, host), "--mpi=none", *address_command(interface)])
    found = re.search(r" inet ([0-9.]+)", said.out)
    if found is None:
        raise MachineError(
            f"no IPv4 address on {interface}: {_first(said.err)}", where=host,
            fix="Name the interface of the nodes in [fabric] interface.",
        )  # fmt: skip
    return found[1]


async def allocate(cluster: Cluster, name: str, *, gpus: int = 8) -> str:
    """An allocation of four nodes without a shell; its job id.

    Raises:
        MachineError: Slurm refused, or has not granted it within ten minutes; then it is asked for no more.
    """
    argv = ["salloc", "--no-shell", f"--job-name={name}", *slurm_options(cluster, gpus=gpus)]
    try:
        result = await _slurm(argv, timeout_s=600)
    except MachineError:
        for job in await jobs_named(name):
            await release(job)
        raise MachineError(
            "Slurm granted no nodes within 10 minutes; the request is withdrawn", where=cluster.name,
            fix="Wait in the queue yourself: salloc, then `bringup up` inside, or sbatch serve.sbatch.",
        ) from None  # fmt: skip
    granted = re.search(r"Granted job allocation (\d+)", result.out + result.err)
    if granted is None:
        raise MachineError(
            f"salloc failed: {_first(result.err)}", where=cluster.name, fix="Look at sinfo and squeue."
        )
    return granted[1]


async def jobs_named(name: str) -> list[str]:
    """Job ids of this user with exactly this name: an allocation whose id was not written down in time."""
    result = await _slurm(["squeue", "--noheader", f"--name={name}", "--format=%i"])
    return result.out.split()


async def job_runs(job: str) -> bool:
    """Whether an allocation is still there; Slurm forgets the id of one that ended."""
    result = await _slurm(["squeue", "--noheader", f"--jobs={job}", "--format=%T"])
    if result.code and "Invalid job id" not in result.err:
        raise MachineError(f"squeue failed: {_first(result.err)}", where=job, fix="Look at sinfo and squeue.")
    return not result.code and bool(result.out.split())


async def release(job: str) -> None:
    """Give an allocation back."""
    await _slurm(["scancel", job])


async def _slurm(argv: list[str], timeout_s: float = 60.0) -> Result:
    try:
        return await _spawn(argv, "", Node("", "slurm", ""), timeout_s)
    except FileNotFoundError:
        raise MachineError(f"no {argv[0]} here", fix="Run this where Slurm's commands are.") from None


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def require_extra(cluster: Cluster) -> None:
    """Say which extra a cluster file needs, before anything else is looked at.

    Raises:
        MissingExtra: ssh without asyncssh.
    """
    if cluster.scheduler == "ssh" and importlib.util.find_spec("asyncssh") is None:
        fix = "Install it: pip install 'k3repro[cluster]'."
        raise MissingExtra("ssh needs asyncssh", where=cluster.name, fix=fix)


def make_executor(cluster: Cluster, *, job: str = "", folder: Path | None = None) -> Executor:
    """The executor of the cluster's scheduler.

    Raises:
        MachineError: Slurm without an allocation.
        MissingExtra: ssh without asyncssh.
    """
    if cluster.scheduler == "local":
        return Local()
    if cluster.scheduler == "ssh":
        return Ssh(cluster)
    job = job or cluster.job or os.environ.get("SLURM_JOB_ID", "")
    if not job or folder is None:
        fix = "Run it inside salloc, set [slurm] job, or let `bringup up` allocate."
        raise MachineError("no Slurm allocation", where=cluster.name, fix=fix)
    return Slurm(cluster, job, folder)
