"""Files not sealed here: opened in a locked-down process, read through the same surface as our own.

The contract (docs/contracts.md, "Untrusted files"): read-only, base tables only, no external access, no
extensions, bounded memory, threads and time, locked configuration, in a subprocess; SQL is a single SELECT.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import k3repro
from k3repro import errors
from k3repro.errors import ArtifactMissing, ArtifactRefused, K3Error
from k3repro.store._documented import Documented
from k3repro.store._duck import quoted
from k3repro.store._findings import Finding
from k3repro.store._sandbox import decoded, encoded

_GROUP = 64  # files that are looked at together
_MOST_DEAD = 3  # files that may kill the reader before it gives up
_MOST_ANSWER = 512_000_000  # bytes of one answer
# Seconds of processor for all that a reader does: what small files decompress to has no other bound.
CPU_S, CPU_S_PER_BYTE = 60.0, 1e-7
_START = "import sys; sys.path.insert(0, sys.argv[1]); from k3repro.store._sandbox import main; main()"


class _ReaderDied(Exception):
    """The subprocess ended; `opening` is the index of the file it was reading, if it was reading one."""

    def __init__(self, opening: int | None, how: str = "") -> None:
        super().__init__(how)
        self.opening = opening


class Reader:
    """The subprocess. A query that takes too long ends it; the next one starts it again."""

    def __init__(
        self, paths: Sequence[Path], *, fill: str, recount: bool, timeout_s: float, memory_mb: int
    ) -> None:
        self._paths = [str(path.resolve()) for path in paths]
        self._open = {"op": "open", "fill": fill, "recount": recount, "memory_mb": memory_mb}
        size = sum(path.stat().st_size for path in paths)
        self._open["cpu_s"] = int(CPU_S + CPU_S_PER_BYTE * size)
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self.reports: list[dict[str, Any]] = self._start()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a single SELECT.

        Raises:
            InputError: not a single SELECT, wrong SQL, NaN in the result.
            ArtifactRefused: it took longer than the bound, or more memory.
        """
        if self._process is None:
            self._start()
        rows = self._ask({"op": "query", "sql": sql, "parameters": encoded(dict(parameters or {}))})
        result: list[dict[str, Any]] = decoded(rows)
        return result

    def close(self) -> None:
        """End the subprocess."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _start(self) -> list[dict[str, Any]]:
        """Start the subprocess; a file that kills it is left out, and reported."""
        dead: dict[int, dict[str, Any]] = {}
        paths, group = self._paths, _GROUP
        while True:
            alive = [i for i in range(len(paths)) if i not in dead]
            try:
                self._spawn()
                reports = self._ask({**self._open, "group": group, "paths": [paths[i] for i in alive]})
                return [dead.get(i) or reports[alive.index(i)] for i in range(len(paths))]
            except _ReaderDied as error:
                if error.opening is None:
                    raise ArtifactRefused(
                        f"the reader ended before it opened a file {error}".rstrip()
                    ) from None
                if group > 1:  # once more file by file, so that it is known which one does it
                    group = 1
                    continue
                if len(dead) == _MOST_DEAD:
                    raise ArtifactRefused(
                        f"the reader died on {_MOST_DEAD} files", fix="Leave them out."
                    ) from None
                what = f"the reader died on this file, or took too long {error}".rstrip()
                dead[alive[error.opening]] = {"error": "ArtifactRefused", "what": what, "fix": ""}

    def _spawn(self) -> None:
        self.close()
        self._buffer = b""
        root = str(Path(k3repro.__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
            env={"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "TZ": "UTC"}, start_new_session=True,
        )  # fmt: skip

    def _ask(self, request: Mapping[str, Any]) -> Any:
        process = self._process
        assert process is not None and process.stdin is not None
        deadline, opening = time.monotonic() + self._timeout_s, None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            while "opening" in (answer := self._line(deadline)):
                deadline, opening = time.monotonic() + self._timeout_s, answer["opening"]
        except (TimeoutError, OSError, EOFError) as error:
            self.close()
            if request["op"] == "open":
                raise _ReaderDied(opening, str(error)) from None
            why = (
                f"took longer than {self._timeout_s:g} s"
                if isinstance(error, TimeoutError)
                else "needed more memory or processor time than allowed"
            )
            raise ArtifactRefused(
                f"the query {why}", where="untrusted query", fix="Make it cheaper."
            ) from None
        if "error" in answer:
            raise _error(answer)
        return answer["ok"]

    def _line(self, deadline: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdout is not None
        handle = process.stdout.fileno()
        chunks, size = [self._buffer], 0
        while b"\n" not in chunks[-1]:
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError
            chunk = process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
            if not chunk:
                raise EOFError
            chunks.append(chunk)
            size += len(chunk)
            if size > _MOST_ANSWER:
                raise EOFError(f"it answers with more than {_MOST_ANSWER} bytes")
        line, _, self._buffer = b"".join(chunks).partition(b"\n")
        try:
            value: dict[str, Any] = json.loads(line)
        except ValueError:
            raise EOFError(f"it answered {line[:60]!r}") from None
        return value


def _error(answer: Mapping[str, Any]) -> K3Error:
    kind = getattr(errors, str(answer["error"]), ArtifactRefused)
    error: K3Error = kind(answer["what"], where=answer.get("where", ""), fix=answer.get("fix", ""))
    return error


def _refusal(path: Path) -> str | None:
    """Why a file is not even given to DuckDB."""
    if path.is_symlink() or not path.is_file():
        return "not a regular file"
    with path.open("rb") as handle:
        if handle.read(12)[8:12] != b"DUCK":
            return "not a DuckDB file"
    if path.with_name(path.name + ".wal").exists():
        return "a write-ahead log lies beside it"
    return None


class UntrustedArtifact(Documented):
    """An artifact not sealed here; its `seal` and `data` were recomputed from the file."""

    def __init__(self, path: Path, reader: Reader) -> None:
        self.path = path
        self._reader = reader

    @cached_property
    def document(self) -> dict[str, Any]:
        """The meta document, which gave its seal."""
        document: dict[str, Any] = self._reader.reports[0]["document"]
        return document

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table in key order."""
        declared = self.schema.table(table)
        return self.sql(
            f"SELECT * FROM {quoted(declared.name)} ORDER BY {', '.join(map(quoted, declared.key))}"
        )

    def sql(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a single SELECT over this artifact's tables."""
        return self._reader.query(sql, parameters)

    def close(self) -> None:
        """End the subprocess."""
        self._reader.close()

    def __enter__(self) -> UntrustedArtifact:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class UntrustedFiles:
    """Files not sealed here, looked at: `documents` and `paths` by seal, `findings` about refused files."""

    def __init__(self, paths: Sequence[Path], **how: Any) -> None:
        refused = {path: why for path in paths if (why := _refusal(path))}
        opened = [path for path in paths if path not in refused]
        self._reader = Reader(opened, **how)
        self.findings = [
            Finding("file-refused", str(path), why, "Remove it.") for path, why in refused.items()
        ]
        self.documents: dict[str, dict[str, Any]] = {}
        self.paths: dict[str, Path] = {}
        for path, report in zip(opened, self._reader.reports, strict=True):
            if "error" in report:
                fix = report["fix"] or "Replace it by the sealed file."
                self.findings.append(Finding("file-refused", str(path), report["what"], fix))
                continue
            artifact = UntrustedArtifact(path, self._reader)
            artifact.__dict__["document"] = report["document"]
            if report["recounted"] not in ("", artifact.data):
                what, fix = "its rows do not give its data digest", "Replace it by the sealed file."
                self.findings.append(Finding("data-differs", str(path), what, fix))
            self.documents[artifact.seal] = report["document"]
            self.paths[artifact.seal] = path

    def close(self) -> None:
        """End the subprocess."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class UntrustedCatalog(UntrustedFiles):
    """A catalog over files not sealed here."""

    def __init__(
        self, paths: Sequence[Path], *, timeout_s: float, memory_mb: int, recount: bool = True
    ) -> None:
        super().__init__(paths, recount=recount, fill="all", timeout_s=timeout_s, memory_mb=memory_mb)

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The rows of a single SELECT, over the same views as `Catalog`."""
        return self._reader.query(sql, parameters)


def open_untrusted(path: Path | str, *, timeout_s: float = 30.0, memory_mb: int = 512) -> UntrustedArtifact:
    """Open an artifact that was not sealed here.

    Raises:
        ArtifactMissing: no such file.
        ArtifactRefused: it holds anything but the base tables it declares, or is not ours.
        ArtifactCorrupt: its document does not give its seal, or its rows do not give its data digest.
    """
    path = Path(path)
    if not path.exists():
        raise ArtifactMissing("no such file", where=str(path), fix="Check the path.")
    if why := _refusal(path):
        raise ArtifactRefused(why, where=str(path), fix="Ask for the sealed file.")
    reader = Reader([path], fill="one", recount=True, timeout_s=timeout_s, memory_mb=memory_mb)
    report = reader.reports[0]
    if "error" not in report and report["recounted"] != report["document"].get("data"):
        report = {
            "error": "ArtifactCorrupt",
            "what": "its rows do not give its data digest",
            "fix": "Ask for the sealed file.",
        }
    if "error" in report:
        reader.close()
        raise _error({**report, "where": str(path)})
    return UntrustedArtifact(path, reader)


def open_untrusted_catalog(
    paths: Sequence[Path | str], *, timeout_s: float = 30.0, memory_mb: int = 512, recount: bool = True
) -> UntrustedCatalog:
    """A catalog over files that were not sealed here; see its `findings` for those that were refused.

    recount: compare the rows of every file with its data digest; who leaves it out calls `recount_untrusted`.
    """
    files = [Path(path) for path in paths]
    try:
        return UntrustedCatalog(files, timeout_s=timeout_s, memory_mb=memory_mb, recount=recount)
    except ArtifactRefused:
        if recount:
            raise
        # rows that cannot be read at all: a recount finds out in which file
        return UntrustedCatalog(files, timeout_s=timeout_s, memory_mb=memory_mb)


def recount_untrusted(
    paths: Sequence[Path], *, timeout_s: float = 30.0, memory_mb: int = 512
) -> UntrustedFiles:
    """Documents of files that were not sealed here, and findings about them; their rows are counted anew."""
    files = UntrustedFiles(paths, recount=True, fill="none", timeout_s=timeout_s, memory_mb=memory_mb)
    files.close()
    return files
