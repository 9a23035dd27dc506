"""Headers over HTTP: range requests, two per shard at most, several shards at once."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

from k3repro.errors import InputError, TargetError
from k3repro.shards import (
    INDEX,
    SINGLE,
    Index,
    IndexCheck,
    ShardHeader,
    header_length,
    parse_header,
    parse_index,
)

FIRST_READ = 128 * 1024
"""Bytes of the first range: a dense shard's whole header; an expert shard takes the second read."""

CONCURRENCY = 8
_TIMEOUT_S = 60
_INDEX_LIMIT = 256 * 1024 * 1024
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")
Progress = Callable[[str], None] | None


def shown(url: str) -> str:
    """A URL as messages show it: without user, password, query or fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InputError(f"this is not a URL: {error}", fix="Write it like https://host/path.") from None
    return urlunsplit((parts.scheme, f"{host}:{port}" if port else host, parts.path, "", ""))


def read_remote(source: str, *, progress: Progress = None) -> Iterator[ShardHeader]:
    """The headers of a checkpoint at a URL (an index, a single file, or the folder of either).

    Raises:
        TargetError: unreachable, an HTTP error, or no range requests.
        InputError: a malformed header or index.
    """
    shown(source)
    if urlsplit(source).path.endswith(".safetensors"):
        return iter([_header(source, progress)])
    index = _index(source)
    if isinstance(index, ShardHeader):
        return iter([index])
    return iter(_shards(source, index, progress))


def _index(source: str) -> Index | ShardHeader:
    if urlsplit(source).path.endswith(".json"):
        return parse_index(_whole(source), shown(source))
    try:
        return parse_index(_whole(_join(source, INDEX)), shown(source))
    except TargetError as error:
        if error.context.get("status") != 404:
            raise
        return _header(_join(source, SINGLE), None)


def _shards(source: str, index: Index, progress: Progress) -> list[ShardHeader]:
    base = source if not urlsplit(source).path.endswith(".json") else _parent(source)
    check = IndexCheck(index)
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        headers = list(pool.map(lambda shard: _header(_join(base, shard), progress), index.shards))
    for shard, header in zip(index.shards, headers, strict=True):
        check.shard(shard, header)
    check.finish()
    return headers


def _header(url: str, progress: Progress) -> ShardHeader:
    where = shown(url)
    first, size = _range(url, 0, FIRST_READ)
    length = header_length(first, where, size)
    raw = first[8 : 8 + length]
    if len(raw) < length:
        rest, again = _range(url, 8 + len(raw), length - len(raw))
        raw += rest
        if again != size:
            said = f"the file changed while it was read: {size:,} bytes, then {again:,}"
            raise TargetError(said, where=where)
    if progress:
        progress(where.rsplit("/", 1)[-1])
    if len(raw) != length:
        raise InputError(f"truncated: {len(raw)} of {length} header bytes arrived", where=where)
    return parse_header(raw, where, size)


def _range(url: str, begin: int, count: int) -> tuple[bytes, int]:
    """Bytes [begin, begin + count) of a file and the file's size."""
    where = shown(url)
    status, said, body = _get(url, count, {"Range": f"bytes={begin}-{begin + count - 1}"})
    if status == 200:
        what = "the server ignores range requests, so headers cannot be read without the data"
        raise TargetError(what, where=where)
    size = _checked_range(said, begin, count, where)
    if len(body) < min(count, size - begin):
        raise TargetError("cannot be read: the answer ended early", where=where, fix="Check URL and network.")
    return body, size


def _checked_range(header: str, begin: int, count: int, where: str) -> int:
    """The file's size, if the server sends exactly what was asked for: never more, less only at the end."""
    place = _RANGE.fullmatch(header.strip())
    if place is not None:
        first, last, size = (int(number) for number in place.groups())
        if first == begin and first <= last == min(begin + count, size) - 1:
            return size
    raise TargetError("the server answers with another range than asked", where=where)


def _whole(url: str) -> bytes:
    body = _get(url, _INDEX_LIMIT + 1, {})[2]
    if len(body) > _INDEX_LIMIT:
        raise InputError("the index is larger than 256 MiB", where=shown(url))
    return body


def _get(url: str, most: int, headers: dict[str, str]) -> tuple[int, str, bytes]:
    """Status, Content-Range and at most `most` bytes of the body of a successful answer."""
    where = shown(url)
    parts = urlsplit(url)
    asked = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
    request = urllib.request.Request(asked, headers={"Accept-Encoding": "identity", **headers})
    if parts.username:
        import base64

        pair = f"{parts.username}:{parts.password or ''}".encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            status = int(response.status)
            if status not in (200, 206):
                raise _status(status, where)
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise TargetError("the server packs what was asked for as it is", where=where)
            body = b"" if status == 200 and headers else response.read(most)
            return status, str(response.headers.get("Content-Range", "")), body
    except urllib.error.HTTPError as error:
        raise _status(error.code, where) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unreachable(error, where) from None


def _status(status: int, where: str) -> TargetError:
    gated = "A gated repository has to be downloaded first, then read as a folder."
    return TargetError(
        f"HTTP {status}", where=where, fix="Check the URL." if status == 404 else gated, status=status
    )


def _unreachable(error: BaseException, where: str) -> TargetError:
    # Only the reason of an operating system is sure to be free of the URL, its user and its query.
    reason = getattr(error, "reason", error)
    why = str(reason) if isinstance(reason, OSError) and str(reason) else type(error).__name__
    return TargetError(f"cannot be read: {why}", where=where, fix="Check URL and network.")


def _join(base: str, name: str) -> str:
    parts = urlsplit(base)
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{name}", parts.query, ""))


def _parent(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rsplit("/", 1)[0], parts.query, ""))
