"""A small HTTP server that is right, or lies in one named way; it answers needles and counts its tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NEEDLE = re.compile(r"The secret token for (\S+) is ([A-Z]+-\d{4})\.")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class Answering:
    """What the server does; `posts` counts completions, `generated` what its own counter says."""

    lie: str = ""
    posts: int = 0
    generated: int = 0

    def get(self, path: str) -> tuple[int, bytes]:
        if path == "/v1/models":
            return 200, b'{"data": [{"id": "m", "max_model_len": 100000}]}'
        if path == "/metrics" and not (self.lie == "metrics go silent" and self.posts > 11):
            another = (self.lie == "restarts" and self.posts > 11) or (
                self.lie == "two behind one URL" and self.posts % 2
            )
            return 200, (
                f"process_start_time_seconds {2000 if another else 1000}\n"
                f'vllm:generation_tokens_total{{engine="0"}} {self.generated}\n'
                f'vllm:request_success_total{{engine="0"}} {self.posts}\n'
            ).encode()
        return (503, b"") if path == "/metrics" else (200, b"{}")

    def post(self, asked: dict[str, Any]) -> bytes:
        self.posts += 1
        if self.lie == "fails the tenth of the ladder" and self.posts == 13:
            return plain(500, b"{}")
        cap, prompt = asked["max_tokens"], asked["prompt"]
        key = prompt.rpartition(" token for ")[2].partition(" ")[0]
        words = [dict(NEEDLE.findall(prompt)).get(key, "x")]
        if self.lie == "sends the prompt back":
            words = prompt.split()
        words = words * cap if asked.get("ignore_eos") else words
        words = words if self.lie == "sends the prompt back" else words[:cap]
        counted = min(cap, len(words))
        if self.lie == "counts twice what it sends":
            words = words[: (counted + 1) // 2]
        self.generated += len(words)
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": counted}
        finish = "length" if counted == cap else "stop"
        if self.lie == "does not stream":
            whole = {"choices": [{"text": " ".join(words), "finish_reason": finish}], "usage": usage}
            return plain(200, json.dumps(whole).encode())
        print_ = f"fp-{self.posts % 2}" if self.lie == "two fingerprints" else "fp"
        events: list[Any] = [
            {"choices": [{"text": f" {word}", "finish_reason": None}], "system_fingerprint": print_}
            for word in words
        ]
        events[-1]["choices"][0]["finish_reason"] = finish
        lines = [json.dumps(event) for event in [*events, {"choices": [], "usage": usage}]]
        body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
        return HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(plain(*self.get(head.split(b" ")[1].decode())))
                    continue
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(size))
                if head.startswith(b"POST /tokenize"):
                    count = len(asked.get("prompt", "").split())
                    writer.write(plain(200, json.dumps({"count": count}).encode()))
                    continue
                if not asked:  # which endpoint is there?
                    writer.write(plain(404 if b"/no-such-" in head else 400, b"{}"))
                    continue
                answer = self.post(asked)
                await asyncio.sleep(0.02)
                writer.write(answer)
        writer.close()


def plain(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@contextlib.contextmanager
def answering(lie: str = "") -> Iterator[str]:
    """The URL of a server that tells `lie`."""
    loop, stop, ports = asyncio.new_event_loop(), asyncio.Event(), list[int]()

    async def serve() -> None:
        server = await asyncio.start_server(Answering(lie).handle, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()
        open_ = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)
        await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    while not ports and thread.is_alive():
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(600)
        loop.close()
