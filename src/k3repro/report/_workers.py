"""Pages checked by a second process, so that a site of many pages takes half as long.

The process gets the rows of every query with the pages, so it asks no artifact anything; what it found comes
back as one pickle. Should it die, its pages are checked here.
"""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import k3repro
from k3repro.errors import K3Error
from k3repro.report._sources import Sources

__all__ = ["Answers", "Helper", "halves", "portable"]

_START = "import sys; sys.path[:0] = sys.argv[1:]; from k3repro.report._verify import help_out; help_out()"


@dataclass(frozen=True, slots=True)
class Answers:
    """A catalog that only knows which queries fail, and how."""

    errors: Mapping[str, K3Error]

    def query(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """Raises: K3Error: what the query gave where it could be asked."""
        raise self.errors[sql]


def portable(sources: Sources) -> Sources:
    """The same sources with every query asked, for a process that cannot ask."""
    errors: dict[str, K3Error] = {}
    for name, query in sources.queries.items():
        try:
            sources.result(name)
        except K3Error as error:
            errors[query.sql] = error
    _ = sources.artifacts, sources.claims
    return dataclasses.replace(sources, catalog=Answers(errors), _made={})


def halves(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Pages in two shares of about the same size."""
    shares: tuple[list[Path], list[Path]] = [], []
    weights = [0, 0]
    for path in sorted(paths, key=lambda item: (-item.stat().st_size, item)):
        lighter = weights.index(min(weights))
        shares[lighter].append(path)
        weights[lighter] += path.stat().st_size
    return shares


class Helper:
    """The other process; it starts at once, and works when it is sent something."""

    def __init__(self) -> None:
        root = str(Path(k3repro.__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def send(self, work: Any) -> None:
        """Give it its work. A process that died already is found out by `answer`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(pickle.dumps(work))
            self._process.stdin.close()
        except OSError:
            self._process.kill()

    def answer(self) -> Any:
        """What it found; None if it died."""
        assert self._process.stdout is not None
        data = self._process.stdout.read()
        return pickle.loads(data) if self._process.wait() == 0 and data else None

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
