"""The self-test, its limit, the evidence rules, request bytes and the table."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any, cast

import pytest
from click.testing import CliRunner

import k3repro.client
import k3repro.twin
from k3repro.cli.selftest import selftest as command
from k3repro.client import (
    REQUESTS_TABLE,
    Access,
    Outcome,
    Request,
    RequestRecord,
    SelfTest,
    evidence_of,
    open_target,
    run_wave,
    selftest,
    zero_server,
)
from k3repro.client._encode import Encoder
from k3repro.errors import InputError, InvalidRun
from k3repro.store._tier import tier_of

REAL = {"/version": '{"version":"0.32.0"}'}
METRICS = "".join(f"# TYPE vllm:family_{index} counter\n" for index in range(12))
METRICS += "# TYPE vllm:num_requests_running gauge\n"


def record(index: int, sent: int, done: int, events: int = 8) -> RequestRecord:
    end = (1, 8, None, None)
    return RequestRecord(
        f"r{index}",
        "",
        Outcome.COMPLETED,
        200,
        "length",
        None,
        sent,
        sent,
        done,
        done,
        done,
        *end,
        events,
        "",
        None,
    )


def instrument(rate: float) -> SelfTest:
    values = dict.fromkeys((field.name for field in dataclasses.fields(SelfTest)), 1.0)
    values |= {"rate_per_s": rate, "events_per_s": rate * 8, "share_limit": 0.5}
    return SelfTest(**values)  # type: ignore[arg-type]


def test_the_selftest_measures_every_side() -> None:
    result = selftest(requests=200, repeats=1)
    assert result.rate_per_s > 0 and result.bare_rate_per_s > 0
    assert result.ratio == pytest.approx(result.rate_per_s / result.bare_rate_per_s)
    assert 0 < result.achieved <= result.concurrency
    json.dumps(result.as_dict(), allow_nan=False)


def test_how_the_users_server_is_reached_says_nothing_of_the_zero_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("K3REPRO_ENDPOINT", "chat")
    assert selftest(requests=32, repeats=1, concurrency=4, ttft_concurrency=2).rate_per_s > 0


def test_the_command_prints_what_it_measured() -> None:
    done = CliRunner().invoke(command, ["client", "--requests", "64", "--repeats", "1", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["concurrency"] == 64
    done = CliRunner().invoke(command, ["client", "--requests", "64", "--repeats", "1"])
    assert "in flight, achieved" in done.output
    assert CliRunner().invoke(command, ["client", "--requests", "0"]).exit_code == 2


def test_a_rung_that_measures_the_client_is_invalid() -> None:
    second = 1_000_000_000
    records = [record(index, index * second // 100, (index + 1) * second // 100) for index in range(100)]
    assert instrument(1000.0).share(records) == pytest.approx(0.1)
    instrument(1000.0).check(records)
    with pytest.raises(InvalidRun, match="measures the client"):
        instrument(150.0).check(records)
    chatty = [dataclasses.replace(item, events=80) for item in records]
    with pytest.raises(InvalidRun):
        instrument(1000.0).check(chatty)
    assert instrument(1.0).share([]) == 0.0


def test_the_zero_server_ends_with_its_parent() -> None:
    code = "import os; from k3repro.client import zero_server\n"
    code += "with zero_server() as p: print(p, flush=True); os._exit(9)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 9
    with pytest.raises(k3repro.errors.TargetError):
        for _ in range(100):
            open_target(f"http://127.0.0.1:{done.stdout.strip()}", timeout_s=0.2).close()


def test_tokens_of_the_zero_server_are_counted() -> None:
    with zero_server() as port, open_target(f"http://127.0.0.1:{port}") as target:
        (answer,) = target.run(run_wave, [Request("r", "x", 5)], concurrency=1)
        assert tier_of(target.serve) == "unverified"
    assert (answer.completion_tokens, answer.events, answer.outcome) == (5, 5, Outcome.COMPLETED)


@pytest.mark.parametrize(
    ("answers", "tier"),
    [
        ({**REAL, "/metrics": METRICS}, "measured"),
        ({**REAL, "/metrics": None}, "unverified"),
        ({"/version": None, "/metrics": METRICS}, "unverified"),
        ({"/version": '{"version":"twin"}', "/metrics": METRICS}, "unverified"),
        ({"/version": '{"version":7}', "/metrics": "# TYPE vllm:num_requests_running gauge"}, "unverified"),
        ({**REAL, "/metrics": METRICS + "k3repro_twin_info 1 k3repro-twin"}, "simulated"),
        ({"/version": "[" * 100_000, "/metrics": "\x00"}, "unverified"),
    ],
)  # fmt: skip
def test_tier_needs_positive_evidence(answers: dict[str, str | None], tier: str) -> None:
    assert tier_of({"evidence": evidence_of(answers)}) == tier


def test_rows_fit_the_table() -> None:
    row = record(1, 0, 5).as_row()
    assert list(row) == [column.name for column in REQUESTS_TABLE.columns]
    assert row["outcome"] == "completed"


def test_a_key_from_the_environment_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K3REPRO_API_KEY", "sk-secret")
    encoder = Encoder("h", access=Access.of_environment())
    assert b"Authorization: Bearer sk-secret\r\n" in encoder.completion(Request("r", "x", 1))
    with zero_server() as port, open_target(f"http://user:pw@127.0.0.1:{port}/v1?key=1") as target:
        shown = json.dumps(target.serve)
        assert "127.0.0.1" not in target.subject and "#" in target.subject
    assert "sk-secret" not in shown and "pw" not in shown


@pytest.mark.parametrize(
    "prompt", ["plain", 'quote " back \\ é \U0001f600', [1, 2, 3], [{"role": "user", "content": "é"}]]
)
def test_request_bytes_say_what_was_asked(prompt: object) -> None:
    chat = isinstance(prompt, list) and isinstance(prompt[0], dict)
    encoder = Encoder("host:1", "/prefix")
    encoder.model = 'm"odel'
    request = Request("r", cast(Any, prompt), 7, True, ["a", "b"], 0.5, chat, continuous_usage=True)
    head, _, body = encoder.completion(request).partition(b"\r\n\r\n")
    document = json.loads(body)
    assert f"Content-Length: {len(body)}".encode() in head
    assert head.startswith(b"POST /prefix/v1/chat/completions " if chat else b"POST /prefix/v1/completions ")
    assert document["messages" if chat else "prompt"] == prompt
    assert document["stop"] == ["a", "b"] and document["max_tokens"] == 7 and document["stream"] is True
    assert document["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_bad_requests_are_refused_before_they_are_sent() -> None:
    with pytest.raises(InputError):
        Request("r", "x", 0)
    with pytest.raises(InputError):
        Request("r", "x", 1, temperature=float("nan"))
    assert Request("r", "x", 1, stop="END").stop == ("END",)
    with open_target("twin:mi325x") as target:
        with pytest.raises(InputError, match="list of int"):
            target.run(run_wave, [Request("r", cast(Any, [{1, 2}]), 1)], concurrency=1)
        (after,) = target.run(run_wave, [Request("s", "x", 1)], concurrency=1)
        assert after.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("module", [k3repro.client, k3repro.twin])
def test_public_names_are_sorted_and_there(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert list(names) == sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert all(hasattr(module, name) for name in names)
