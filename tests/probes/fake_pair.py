"""A real HTTP server that behaves like an engine, or like a prefill/decode pair, with defects to order.

Its model is a hash: the state after a prompt is a digest of its tokens, each greedy token a digest of the
state. So every answer depends on the whole prompt, and a state that went astray shows.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STATE_BYTES, BLOCK_BYTES, BLOCK_TOKENS = 1000, 64, 16


def _hash(*parts: Any) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


@dataclass
class FakeEngine:
    """One engine; `defect` names what it does wrong. `peers`: hand-offs it can fetch; `router`: (P, D)."""

    defect: str = ""
    parked: dict[str, int] = field(default_factory=dict)
    router: tuple[FakeEngine, FakeEngine] | None = None
    logprobs: bool = True
    started: float = 1.0
    transfers: int = 0
    bytes: int = 0
    flying: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def complete(self, document: dict[str, Any]) -> dict[str, Any]:
        """The whole answer to a completion document."""
        if self.router:
            return self._routed(document)
        tokens = tokens_of(document["prompt"])
        params = document.get("kv_transfer_params") or {}
        with self.lock:
            state = self._state(tokens, params)
            self.flying.append(state)
        barrier = threading.Event()
        barrier.wait(0.004)  # long enough for the neighbours of a wave to arrive
        with self.lock:
            state = self._spoiled(state)
            self.flying.pop()
            answer = self._answer(state, document["max_tokens"])
            self.used.append(state)
            if params.get("do_remote_decode"):
                handle = f"h{len(self.parked)}"
                self.parked[handle] = state
                answer["kv_transfer_params"] = {"handle": handle}
        answer["usage"] = {"prompt_tokens": len(tokens), "completion_tokens": document["max_tokens"]}
        return answer

    def _routed(self, document: dict[str, Any]) -> dict[str, Any]:
        assert self.router is not None
        prefill, decode = self.router
        first = prefill.complete(
            document | {"max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}
        )
        return decode.complete(document | {"kv_transfer_params": first["kv_transfer_params"]})

    def _state(self, tokens: list[str], params: dict[str, Any]) -> int:
        own = 7 if self.defect == "blind" else _hash(tokens)
        if "handle" not in params:
            return own
        if self.defect != "moves no bytes":
            self.transfers += 1
            self.bytes += STATE_BYTES + BLOCK_BYTES * -(-(len(tokens) - 1) // BLOCK_TOKENS)
        if self.defect == "loses the state part":
            self.bytes -= STATE_BYTES
        state = self.parked[params["handle"]]
        if self.defect == "ignores the hand-off":
            return own
        if self.defect == "takes another hand-off":
            others = [known for known in self.parked.values() if known != state]
            return others[-1] if others else state
        return state

    def _spoiled(self, state: int) -> int:
        others = [known for known in self.flying if known != state]
        if self.defect == "mixes neighbours" and others:
            return others[0]
        if self.defect == "keeps the state of a used slot" and self.used and self.used[-1] != state:
            return _hash(state, self.used[-1])
        return state

    def _answer(self, state: int, count: int) -> dict[str, Any]:
        ids = [_hash(state, index) % 5000 for index in range(count)]
        probabilities = [-1.0 - _hash(state, index, "p") % 1000 / 1000 for index in range(count)]
        margins = [0.5 + _hash(state, index, "m") % 1000 / 1000 for index in range(count)]
        if self.defect == "moves the last bit" and len(self.used) % 2:
            probabilities = [value + 1e-6 for value in probabilities]
        if self.defect in ("flips at a tie", "flips at a wide margin") and count > 3:
            ids[3:] = [known + 1 for known in ids[3:]]
            margins[3] = 0.0 if self.defect == "flips at a tie" else 1.5
        if self.defect == "will flip at a tie" and count > 3:
            margins[3] = 0.0
        names = [f"token_id:{known}" for known in ids]
        tops = [
            {name: p, "token_id:9999": p - m}
            for name, p, m in zip(names, probabilities, margins, strict=True)
        ]
        found = {"tokens": names, "token_logprobs": probabilities, "top_logprobs": tops}
        text = "".join(f" w{known}" for known in ids)
        choice = {
            "index": 0,
            "text": text,
            "finish_reason": "length",
            "logprobs": found if self.logprobs else None,
        }
        return {"object": "text_completion", "choices": [choice]}

    def metrics(self) -> str:
        """What /metrics says."""
        lines = [f"process_start_time_seconds {self.started}", "vllm:num_requests_running 0"]
        lines += [
            f"vllm:nixl_bytes_transferred_count {self.transfers}",
            f"vllm:nixl_bytes_transferred_sum {self.bytes}",
        ]
        return "\n".join([*lines, "vllm:nixl_num_failed_transfers_total 0"]) + "\n"


def tokens_of(prompt: Any) -> list[str]:
    """Words of a text, or ids as text: `tokenize` gives the ids of the words."""
    return (
        [str(_hash(word)) for word in prompt.split()] if isinstance(prompt, str) else [str(i) for i in prompt]
    )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: FakeEngine

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        pages = {
            "/version": json.dumps({"version": "0.32.0"}), "/metrics": self.engine.metrics(), "/health": "",
            "/v1/models": json.dumps({"data": [{"id": "fake", "max_model_len": 4096}]}),
        }  # fmt: skip
        self._reply(pages.get(self.path, "").encode(), 200 if self.path in pages else 404)

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self._reply(json.dumps({"tokens": [int(t) for t in tokens_of(document["prompt"])]}).encode())
        elif document.get("stream"):
            self._stream(self.engine.complete(document))
        else:
            self._reply(json.dumps(self.engine.complete(document)).encode())

    def _stream(self, answer: dict[str, Any]) -> None:
        usage = {"choices": [], "usage": answer["usage"]}
        events = [json.dumps(document) for document in (answer, usage)] + ["[DONE]"]
        self._reply("".join(f"data: {event}\n\n" for event in events).encode(), kind="text/event-stream")

    def _reply(self, body: bytes, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def serving(engine: FakeEngine) -> Iterator[str]:
    """The URL of a server for `engine`, in this process."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"engine": engine}))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
