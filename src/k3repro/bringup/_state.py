"""What a bring-up does, on disk before it is done, so that any later command knows what to undo."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from k3repro.bringup._cluster import ROLES, Cluster, parse_cluster
from k3repro.bringup._plan import ROUTER
from k3repro.errors import MachineError

_FILE, _BEFORE = "state.json", "state.previous.json"
_SERVE = re.compile(r"[a-z0-9-]{1,40}")


def state_folder(name: str) -> Path:
    """Where the state of a cluster lives: $K3REPRO_STATE, else the user's state folder."""
    base = os.environ.get("K3REPRO_STATE")
    root = Path(base) if base else Path.home() / ".local" / "state" / "k3repro"
    return root / name


@dataclass(slots=True)
class State:
    """One serve of one cluster. `roles` lists what was, or was about to be, started."""

    serve: str
    cluster: str
    cluster_text: str
    digest: str
    phase: str
    url: str
    ports: list[int]
    grace_s: float
    drain_s: float
    job: str = ""
    own_job: bool = False
    roles: dict[str, dict[str, Any]] = field(default_factory=dict)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def event(self, phase: str, what: str, **more: Any) -> None:
        """Add to the timeline. Times are wall-clock seconds."""
        self.phase = phase
        self.timeline.append({"at": time.time(), "phase": phase, "what": what, **more})

    def parsed_cluster(self) -> Cluster:
        """The cluster as it was when the serve was started."""
        return parse_cluster(self.cluster_text, f"{self.cluster} (as started)")


def _read_state(path: Path) -> State:
    """Raises ValueError or TypeError for anything but a state that scripts can be made from."""
    state = State(**json.loads(path.read_text(encoding="utf-8")))
    roles = state.roles if isinstance(state.roles, dict) else {"": None}
    texts = (state.serve, state.cluster, state.cluster_text, state.digest, state.phase, state.url, state.job)
    sound = (
        all(isinstance(text, str) for text in texts) and _SERVE.fullmatch(state.serve)
        and (not state.job or re.fullmatch(r"[0-9][0-9_]*", state.job))
        and all(isinstance(port, int) for port in state.ports)
        and all(isinstance(wait, (int, float)) and wait >= 0 for wait in (state.grace_s, state.drain_s))
        and set(roles) <= {*ROLES, ROUTER}
        and all(isinstance(entry, dict) and {"host", "log"} <= set(entry) for entry in roles.values())
        and isinstance(state.timeline, list) and isinstance(state.facts, dict)
    )  # fmt: skip
    if not sound:
        raise ValueError("its fields are not those of a serve")
    return state


class StateFile:
    """The state of one cluster on this machine, and the lock that keeps two commands apart."""

    def __init__(self, name: str) -> None:
        self.folder = state_folder(name)

    def load(self) -> State | None:
        """The state, None when nothing was started.

        If a file is unreadable, the one before it is used: same serve, one event earlier. Tear-down
        stops every role of a serve, listed or not, so that this is enough.

        Raises:
            MachineError: neither file is readable as a state.
        """
        path = self.folder / _FILE
        try:
            return _read_state(path)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            with contextlib.suppress(OSError, ValueError, TypeError):
                return _read_state(self.folder / _BEFORE)
            fix = "Stop what `k3repro doctor` lists as leftovers on the nodes by hand, then remove the file."
            raise MachineError(f"the state cannot be read: {error}", where=str(path), fix=fix) from None

    def save(self, state: State) -> None:
        """Write it durably; a reader sees the old or the new state, never half of one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _FILE
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            json.dump(asdict(state), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        before = self.folder / _BEFORE
        before.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.link(path, before)
        fresh.replace(path)

    def finish(self, state: State, report: Mapping[str, Any]) -> Path:
        """Put the state aside under its serve's name: nothing of it is running any more."""
        self.save(state)
        done = self.folder / f"{state.serve}.json"
        done.write_text(
            json.dumps({**asdict(state), "down": report}, indent=1, default=str), encoding="utf-8"
        )
        (self.folder / _FILE).unlink()
        (self.folder / _BEFORE).unlink(missing_ok=True)
        return done

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. The kernel drops it when the process dies, however it dies.

        Raises:
            MachineError: another command holds it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                fix = "Wait for it, or stop that process."
                raise MachineError(
                    f"another bring-up command is running (pid {owner})", where=str(self.folder), fix=fix
                ) from None
            file.seek(0)
            file.truncate()
            file.write(str(os.getpid()))
            file.flush()
            yield
