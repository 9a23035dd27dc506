"""What a card says of a measured value: a fake server never gets beyond its own word."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from small_site import fill, write_site

from k3repro.probes import adopt, run_probe
from k3repro.report import audit_site, build_site
from k3repro.report._evidence import evidence_of, vouched
from k3repro.store import Store

FAMILIES = [
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "num_preemptions_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "request_success_total",
    "iteration_tokens_total",
    "cache_config_info",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "lora_requests_info",
]


class _Handler(BaseHTTPRequestHandler):
    """A server with no engine behind it: it sleeps, streams a word a token, and knows what vLLM would say."""

    protocol_version = "HTTP/1.1"
    plausible = False
    counts: dict[str, float]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        pages = {
            "/version": '{"version": "0.14.0"}', "/health": "", "/metrics": self._metrics(),
            "/v1/models": '{"data": [{"id": "kimi-k3", "max_model_len": 131072}]}',
        }  # fmt: skip
        body = pages.get(self.path, "").encode()
        self.send_response(200 if self.path in pages else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _metrics(self) -> str:
        lines = ["process_start_time_seconds 1700000000"]
        for name in FAMILIES:
            value = self.counts.get(name, 0) if self.plausible else 0
            lines.append(f"# TYPE vllm:{name} gauge")
            lines.append(f'vllm:{name}{{model_name="kimi-k3",engine="0"}} {value}')
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds") if self.plausible else ():
            lines += [
                f"vllm:{name}_{part} {self.counts.get(f'{name}_{part}', 0)}" for part in ("sum", "count")
            ]
        return "\n".join(lines) + "\n"

    def do_POST(self) -> None:
        began = time.monotonic()
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        count, prompt = document["max_tokens"], len(str(document["prompt"]).split())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        time.sleep(0.02)
        first = time.monotonic() - began
        for index in range(count):
            last = "length" if index == count - 1 else None
            self._event({"choices": [{"index": 0, "text": " word", "finish_reason": last}]})
            time.sleep(0.001)
        usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
        ttft, whole = "time_to_first_token_seconds", "e2e_request_latency_seconds"
        grown = {
            "prompt_tokens_total": prompt, "generation_tokens_total": count, "request_success_total": 1,
            f"{ttft}_sum": first, f"{ttft}_count": 1,
            f"{whole}_sum": time.monotonic() - began, f"{whole}_count": 1,
        }  # fmt: skip
        for name, more in grown.items():
            self.counts[name] = self.counts.get(name, 0) + more
        self._event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _event(self, value: dict[str, Any]) -> None:
        chunk = {"id": "cmpl-1", "object": "text_completion", "model": "kimi-k3", **value}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())


@contextmanager
def fake(plausible: bool) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"plausible": plausible, "counts": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("plausible", [False, True])
def test_a_fake_server_stays_self_declared(tmp_path: Path, plausible: bool) -> None:
    store = Store(tmp_path / "artifacts")
    with fake(plausible) as url:
        record = adopt(url, store=store)
        run = run_probe(
            "osl-sweep", target=url, store=store, seed=0, unsafe=True, isl=32, osl=[4, 8], repeats=1
        )
    assert record.tier == run.tier == "measured"  # all that a server says of itself is there
    artifacts = {
        str(row["seal"]): row for row in store.catalog().query("SELECT * FROM artifacts ORDER BY seal")
    }
    for seal in (record.seal, run.seal):
        assert evidence_of(seal, artifacts, vouched(store).get(seal, frozenset())) == ["self-declared"]


def _row(seal: str, **more: Any) -> dict[str, Any]:
    serve = json.dumps({"evidence": [{"kind": "metrics", "value": "12 families"}]})
    plain = {"name": "latency", "tier": "measured", "basis": "measured", "inputs": [], "serve": serve}
    return {"seal": seal, "verdict_ok": True, **plain, **more}


def test_what_counters_and_a_second_serve_add_needs_somebody_who_vouches() -> None:
    confirmed = {
        "name": "confirmation", "tier": "derived", "basis": "measured", "inputs": ["a", "b"], "serve": "{}"
    }  # fmt: skip
    rows = {"a": _row("a"), "b": _row("b"), "c": _row("c", **confirmed), "d": _row("d", serve="{}")}
    rows["x"] = _row("x", tier="simulated", basis="simulated")
    ann = frozenset({"ann"})
    assert evidence_of("a", rows, frozenset()) == ["self-declared"]
    assert evidence_of("a", rows, ann) == ["signed by ann", "counters agree", "reproduced by a second serve"]
    assert evidence_of("d", rows, ann) == ["signed by ann"]
    assert evidence_of("x", rows, ann) == []
    refuted = rows | {"c": _row("c", **confirmed | {"verdict_ok": False})}
    assert evidence_of("b", refuted, ann) == ["signed by ann", "counters agree"]


MEASURED = """-- title: Measured
-- column wall_s: {label = "Wall time", unit = "s", format = ".2f"}
SELECT seal, osl, wall_s FROM sweep_waves WHERE tier = 'measured' ORDER BY osl
"""


def test_a_card_says_who_signed_and_the_audit_asks_whose_word_that_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "project" / "artifacts")
    fill(store, measured=True)
    root = tmp_path / "project" / "site"
    root.mkdir()
    site = write_site(root)
    (root / "queries" / "measured.sql").write_text(MEASURED, "utf-8")
    with (root / "pages" / "wall-law.md").open("a") as page:
        page.write('\n{{ table("measured", caption="On a GPU.") }}\n')
    built = build_site(site, store).site
    assert '"evidence":"self-declared"' in (built / "behind" / "wall-law.js").read_text()
    for name in ("ann", "eve"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    store.sign(tmp_path / "ann", "ann@example.org")
    built = build_site(site, store).site
    data = (built / "behind" / "wall-law.js").read_text()
    assert '"evidence":"signed by ann@example.org; counters agree"' in data
    own = audit_site(built, alone=True)
    assert own.ok and any("says the site's own list" in note for note in own.notes)
    signers = tmp_path / "allowed_signers"
    for name, count in (("ann", 0), ("eve", 2)):
        public = (tmp_path / name).with_suffix(".pub").read_text()
        signers.write_text(f"ann@example.org {public}")
        assert len(audit_site(built, alone=True, signers=signers).findings) >= count
        assert audit_site(built, alone=True, signers=signers).ok == (name == "ann")


def test_a_ledger_made_anew_beside_the_genuine_store_is_named(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = Store(tmp_path / "artifacts")
    fill(genuine)
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(genuine.root))
    assert not set(genuine.heads()) & set(Store(built / "artifacts").heads())
    assert "heads" in {finding.code for finding in audit_site(built).findings}
    head = genuine.heads()[0]
    known = audit_site(built, alone=True, known_heads=[head]).findings
    assert [finding.where for finding in known] == [f"ledger {head[:12]}"]


def test_a_store_of_another_study_is_named_and_judges_nothing(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Store(tmp_path / "artifacts")
    other.transcribe("tiny", "x", {"document": "d"}, _tiny(), [{"id": "a", "n": 1}])
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(other.root))
    audit = audit_site(built)
    assert audit.ok and any(str(other.root) in note and "another history" in note for note in audit.notes)


def _tiny() -> Any:
    from k3repro.store import Column, Schema, Table

    return Schema((Table("rows", (Column("id", "VARCHAR"), Column("n", "INT64")), key=("id",)),))
