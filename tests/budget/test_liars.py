"""Servers that lie about ranges and sizes, URLs that are none, and what messages may say of them."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from k3repro.budget import checkpoint_of_headers
from k3repro.errors import InputError, TargetError

Headers = dict[str, Any]
Reply = Callable[[bytes, int, int], tuple[int, Headers, bytes]]


def shard(tensors: int) -> bytes:
    header = json.dumps(
        {
            f"model.layers.0.mlp.experts.{i}.up_proj.weight": {
                "dtype": "BF16", "shape": [1, 1], "data_offsets": [2 * i, 2 * i + 2],
            }
            for i in range(tensors)
        }
    ).encode()  # fmt: skip
    return struct.pack("<Q", len(header)) + header + bytes(2 * tensors)


@contextmanager
def server(data: bytes, reply: Reply) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            code, headers, body = reply(data, int(first), min(int(last), len(data) - 1))
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://user:SECRET@127.0.0.1:{running.server_port}/model.safetensors?token=SECRET"
    running.shutdown()
    running.server_close()


def said(first: int, last: int, size: object) -> Headers:
    return {"Content-Range": f"bytes {first}-{last}/{size}"}


def honest(data: bytes, first: int, last: int) -> tuple[int, Headers, bytes]:
    return 206, said(first, last, len(data)), data[first : last + 1]


SMALL, LARGE = shard(2), shard(4000)

LIES: dict[str, Reply] = {
    "more than asked": lambda d, a, b: (206, said(a, 10**13, 10**13 + 1), d),
    "less than asked": lambda d, a, b: (206, said(a, a + 2, len(d)), d[a : a + 3]),
    "another place": lambda d, a, b: (206, said(a + 1, b + 1, len(d) + 1), d[a:]),
    "past the end": lambda d, a, b: (206, said(a, b, 5), d[a:]),
    "backwards": lambda d, a, b: (206, said(a + 5, a, len(d)), b""),
    "no size": lambda d, a, b: (206, said(a, b, "*"), d[a:]),
    "no range": lambda d, a, b: (206, {}, d[a:]),
    "a size of a million digits": lambda d, a, b: (206, said(a, b, "9" * 5000), d[a:]),
    "fewer bytes": lambda d, a, b: (206, said(a, b, len(d)), d[a : a + 3]),
    "packed": lambda d, a, b: (206, said(a, b, len(d)) | {"Content-Encoding": "gzip"}, d[a:]),
    "redirected for ever": lambda d, a, b: (302, {"Location": "/model.safetensors?token=SECRET"}, b""),
    "redirected to a file": lambda d, a, b: (302, {"Location": "file:///SECRET"}, b""),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused_and_no_secret_printed(lie: str) -> None:
    with server(SMALL, LIES[lie]) as url, pytest.raises(TargetError) as caught:
        checkpoint_of_headers(url)
    assert "SECRET" not in str(caught.value) + json.dumps(caught.value.as_dict())


def test_a_file_that_changes_between_its_two_reads() -> None:
    def grows(data: bytes, first: int, last: int) -> tuple[int, Headers, bytes]:
        return 206, said(first, last, len(data) + 7 * bool(first)), data[first : last + 1]

    with server(LARGE, honest) as url:
        assert checkpoint_of_headers(url).inventory.tensors == 4000
    with server(LARGE, grows) as url, pytest.raises(TargetError, match="changed|another range"):
        checkpoint_of_headers(url)


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:99999/x", "http://host:port/x"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(InputError, match="not a URL"):
        checkpoint_of_headers(url)
