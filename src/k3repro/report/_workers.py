"""Files checked by a second process, so that a site of many pages takes half as long.

The process gets the rows of every query, so it asks no artifact anything; then one file after another, each
when it is done with the last. Should it die, what it had left is checked here.
"""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import k3repro
from k3repro.errors import K3Error
from k3repro.report._sources import Queryable, Sources

__all__ = ["Answers", "Helper", "portable"]

_START = "import sys; sys.path[:0] = sys.argv[1:]; from k3repro.report._verify import help_out; help_out()"


@dataclass(frozen=True, slots=True)
class Answers:
    """A catalog that only knows which queries fail, and how."""

    errors: Mapping[str, K3Error]

    def query(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """Raises: K3Error: what the query gave where it could be asked."""
        raise self.errors[sql]


class _Ahead:
    """A catalog that is asked the next question while the last answer is looked at."""

    def __init__(self, catalog: Queryable, asked: Mapping[str, Future[list[dict[str, Any]]]]) -> None:
        self._catalog, self._asked = catalog, asked

    def query(self, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
        """The rows of a query, as the catalog gives them."""
        return self._asked[sql].result() if sql in self._asked else self._catalog.query(sql, parameters)


def portable(sources: Sources) -> Sources:
    """The same sources with every query asked, for a process that cannot ask."""
    errors: dict[str, K3Error] = {}
    with ThreadPoolExecutor(1) as beside:
        if not sources.identity:  # else most rows are those of an earlier build
            queries = sources.queries.values()
            asked = {query.sql: beside.submit(sources.catalog.query, query.sql) for query in queries}
            sources = dataclasses.replace(sources, catalog=_Ahead(sources.catalog, asked))
        for name, query in sources.queries.items():
            try:
                sources.result(name)
            except K3Error as error:
                errors[query.sql] = error
    _ = sources.artifacts, sources.claims
    return dataclasses.replace(sources, catalog=Answers(errors), _made={})


class Helper:
    """The other process; it starts at once, and works when it is sent something."""

    def __init__(self) -> None:
        root = str(Path(k3repro.__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def send(self, pickled: bytes) -> None:
        """Give it something.

        Raises:
            OSError: it died.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(pickled)
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What it found.

        Raises:
            EOFError, pickle.UnpicklingError: it died.
        """
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)

    def __enter__(self) -> Helper:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it did not take any more
                    pipe.close()
