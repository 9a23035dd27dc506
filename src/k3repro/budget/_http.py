"""Headers over HTTP: range requests, two per shard at most, several shards at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from k3repro.budget._header import Header, header_length, parse_header
from k3repro.budget._read import INDEX, SINGLE, Index, IndexCheck, parse_index
from k3repro.errors import InputError, TargetError

FIRST_READ = 128 * 1024
"""Bytes of the first range: a dense shard's whole header; an expert shard takes the second read."""

CONCURRENCY = 8
_INDEX_LIMIT = 256 * 1024 * 1024
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")


def shown(url: str) -> str:
    """A URL as messages show it: without user, password, query or fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InputError(f"this is not a URL: {error}", fix="Write it like https://host/path.") from None
    return urlunsplit((parts.scheme, f"{host}:{port}" if port else host, parts.path, "", ""))


def read_remote(source: str, *, progress: Callable[[str], None] | None = None) -> Iterator[Header]:
    """The headers of a checkpoint at a URL (an index, a single file, or the folder of either).

    Raises:
        TargetError: unreachable, an HTTP error, or no range requests.
        InputError: a malformed header or index.
    """
    shown(source)
    return iter(asyncio.run(_read_all(source, progress)))


async def _read_all(source: str, progress: Callable[[str], None] | None) -> list[Header]:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        if urlsplit(source).path.endswith(".safetensors"):
            return [await _header(session, source, asyncio.Semaphore(1), progress)]
        index = await _index(session, source)
        if isinstance(index, Header):
            return [index]
        return await _shards(session, source, index, progress)


async def _index(session: aiohttp.ClientSession, source: str) -> Index | Header:
    if urlsplit(source).path.endswith(".json"):
        return parse_index(await _whole(session, source), shown(source))
    try:
        return parse_index(await _whole(session, _join(source, INDEX)), shown(source))
    except TargetError as error:
        if error.context.get("status") != 404:
            raise
        return await _header(session, _join(source, SINGLE), asyncio.Semaphore(1), None)


async def _shards(
    session: aiohttp.ClientSession, source: str, index: Index, progress: Callable[[str], None] | None
) -> list[Header]:
    base = source if not urlsplit(source).path.endswith(".json") else _parent(source)
    gate = asyncio.Semaphore(CONCURRENCY)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_guarded(session, _join(base, s), gate, progress)) for s in index.shards]
    check = IndexCheck(index)
    headers = []
    for shard, task in zip(index.shards, tasks, strict=True):
        result = task.result()
        if isinstance(result, Exception):
            raise result
        check.shard(shard, result)
        headers.append(result)
    check.finish()
    return headers


async def _guarded(
    session: aiohttp.ClientSession, url: str, gate: asyncio.Semaphore, progress: Callable[[str], None] | None
) -> Header | InputError | TargetError:
    # A task group wraps errors in a group; the first shard's own error is what a reader needs.
    try:
        return await _header(session, url, gate, progress)
    except (InputError, TargetError) as error:
        return error


async def _header(
    session: aiohttp.ClientSession,
    url: str,
    gate: asyncio.Semaphore,
    progress: Callable[[str], None] | None,
) -> Header:
    where = shown(url)
    async with gate:
        first, size = await _range(session, url, 0, FIRST_READ)
        length = header_length(first, where, size)
        raw = first[8 : 8 + length]
        if len(raw) < length:
            rest, again = await _range(session, url, 8 + len(raw), length - len(raw))
            raw += rest
            if again != size:
                raise TargetError(
                    f"the file changed while it was read: {size:,} bytes, then {again:,}", where=where
                )
    if progress:
        progress(where.rsplit("/", 1)[-1])
    if len(raw) != length:
        raise InputError(f"truncated: {len(raw)} of {length} header bytes arrived", where=where)
    return parse_header(raw, where, size)


async def _range(session: aiohttp.ClientSession, url: str, begin: int, count: int) -> tuple[bytes, int]:
    """Bytes [begin, begin + count) of a file and the file's size."""
    where = shown(url)
    headers = {"Range": f"bytes={begin}-{begin + count - 1}", "Accept-Encoding": "identity"}
    try:
        async with session.get(url, headers=headers) as response:
            if response.status == 200:
                raise TargetError(
                    "the server ignores range requests, so headers cannot be read without the data",
                    where=where,
                )
            if response.status != 206:
                raise _status(response.status, where)
            size = _checked_range(response.headers.get("Content-Range", ""), begin, count, where)
            return await response.content.readexactly(min(count, size - begin)), size
    except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
        raise _unreachable(error, where) from None


def _checked_range(header: str, begin: int, count: int, where: str) -> int:
    """The file's size, if the server sends exactly what was asked for: never more, less only at the end."""
    place = _RANGE.fullmatch(header.strip())
    if place is not None:
        first, last, size = (int(number) for number in place.groups())
        if first == begin and first <= last == min(begin + count, size) - 1:
            return size
    raise TargetError("the server answers with another range than asked", where=where)


async def _whole(session: aiohttp.ClientSession, url: str) -> bytes:
    where = shown(url)
    try:
        async with session.get(url) as response:
            if response.status != 200:
                raise _status(response.status, where)
            body = bytearray()
            async for chunk in response.content.iter_chunked(1 << 20):
                body += chunk
                if len(body) > _INDEX_LIMIT:
                    raise InputError("the index is larger than 256 MiB", where=where)
            return bytes(body)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _unreachable(error, where) from None


def _status(status: int, where: str) -> TargetError:
    fix = (
        "Check the URL."
        if status == 404
        else "A gated repository has to be downloaded first, then read as a folder."
    )
    return TargetError(f"HTTP {status}", where=where, fix=fix, status=status)


def _unreachable(error: BaseException, where: str) -> TargetError:
    # aiohttp puts the whole URL into most messages, user and query included; only these are free of it.
    plain = isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ClientPayloadError, OSError))
    why = str(error) if plain and str(error) else type(error).__name__
    return TargetError(f"cannot be read: {why}", where=where, fix="Check URL and network.")


def _join(base: str, name: str) -> str:
    parts = urlsplit(base)
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{name}", parts.query, ""))


def _parent(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rsplit("/", 1)[0], parts.query, ""))
