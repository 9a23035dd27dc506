"""Engines in processes of their own, asked as a router asks them: command lines, signals, deaths."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_roles import Engine, role_arguments, transfer_config

from k3repro.serve import parse_metrics
from k3repro.serve.lines import parse_kv_lines
from k3repro.serve.startup import parse_startup

P_MASTER, P_WORKER, DECODE = "127.0.3.1", "127.0.3.2", "127.0.3.3"
NEEDLE = "The secret token for k1 is HELIOTROPE-7492. What is the secret token for k1?"
SCALE = {"K3REPRO_TWIN_TIME_SCALE": "50"}


def ask(host: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    link = http.client.HTTPConnection(host, 20005, timeout=600)
    data = None if body is None else json.dumps(body)
    link.request("POST" if data else "GET", path, data, {"content-type": "application/json", **headers})
    answer = link.getresponse()
    text = answer.read().decode()
    link.close()
    return answer.status, text


def routed(
    transfer: str,
    p_rank: int,
    d_rank: int,
    prompt: str = NEEDLE,
    told: str = "",
    hosts: tuple[str, str] = (P_MASTER, DECODE),
) -> list[tuple[int, str]]:
    """Both posts of a WRITE request at once, as the real router makes them: (prefill's answer, decode's)."""
    addresses = [f"host:{host},handshake:8405,notify:61005" for host in hosts]
    name = f"___prefill_addr_{addresses[0]}___decode_addr_{addresses[1]}_{transfer:0>32}"
    shared = {"model": "kimi-k3", "transfer_id": transfer}
    halves = []
    for prefill, host, rank, remote in ((True, hosts[0], p_rank, d_rank), (False, hosts[1], d_rank, p_rank)):
        params = {
            "do_remote_decode": prefill, "do_remote_prefill": not prefill, "transfer_id": transfer,
            "remote_dp_rank": remote, "remote_dp_size": 2, "remote_tp_size": 2,
        }  # fmt: skip
        text = prompt if prefill else told or prompt
        body = {**shared, "prompt": text, "max_tokens": 1 if prefill else 8, "kv_transfer_params": params}
        halves.append((host, body, {"X-Request-ID": name, "x-data-parallel-rank": str(rank)}))
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda half: ask(half[0], "/v1/completions", half[1], **half[2]), halves))


def said(answer: tuple[int, str]) -> str:
    return str(json.loads(answer[1])["choices"][0]["text"])


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    """Prefill over two processes (master and headless worker, one lane each), decode in one."""
    logs = tmp_path_factory.mktemp("logs")
    p_config, d_config = transfer_config("prefill", [DECODE]), transfer_config("decode", [P_MASTER, P_WORKER])
    started = {
        "worker": (P_WORKER, role_arguments("prefill", "worker", P_MASTER, p_config, dp=2)),
        "prefill": (P_MASTER, role_arguments("prefill", "master", P_MASTER, p_config, dp=2)),
        "decode": (DECODE, role_arguments("decode", "master", DECODE, d_config, dp=2, nodes=1)),
    }
    running = {
        name: Engine(logs / f"{name}.log", host, arguments, **SCALE)
        for name, (host, arguments) in started.items()
    }
    try:
        for name in ("prefill", "decode"):
            running[name].until("Application startup complete.")
        running["worker"].until("Maximum concurrency")
        yield running
    finally:
        for engine in running.values():
            engine.end()


def test_every_lane_speaks_in_the_log_of_its_own_process(engines: dict[str, Engine]) -> None:
    logs = {name: engine.text.splitlines() for name, engine in engines.items()}
    lanes = {name: sorted(parse_startup(lines).ranks) for name, lines in logs.items()}
    assert lanes == {"worker": [1], "prefill": [0], "decode": [0, 1]}
    assert {pool.tokens for lines in logs.values() for pool in parse_kv_lines(lines)} == {916_875}
    assert all("k3repro-twin" in lines[0] for lines in logs.values())


@pytest.mark.parametrize("p_rank", [0, 1])
@pytest.mark.parametrize("d_rank", [0, 1])
def test_a_context_crosses_processes_from_every_lane_to_every_lane(
    engines: dict[str, Engine], p_rank: int, d_rank: int
) -> None:
    prefill, decode = routed(f"a{p_rank}{d_rank}", p_rank, d_rank)
    assert (prefill[0], decode[0]) == (200, 200)
    assert said(decode) == " HELIOTROPE-7492"
    assert json.loads(decode[1])["system_fingerprint"].startswith("k3repro-twin")


def test_the_answer_follows_from_the_context_that_came_not_from_the_prompt_that_was_told(
    engines: dict[str, Engine],
) -> None:
    told = NEEDLE.replace("HELIOTROPE-7492", "MAGNOLIA-1111")
    assert said(routed("b1", 0, 0, NEEDLE, told)[1]) == " HELIOTROPE-7492"


def test_a_bad_request_is_refused_before_anybody_waits(engines: dict[str, Engine]) -> None:
    params = {"do_remote_prefill": True, "transfer_id": "c1"}
    name = f"___prefill_addr_host:{P_MASTER},handshake:8405,notify:61005___decode_addr_x_{'0' * 32}"
    body = {"model": "kimi-k3", "prompt": "x", "max_tokens": -1, "kv_transfer_params": params}
    status, text = ask(DECODE, "/v1/completions", body, **{"X-Request-ID": name})
    assert status == 400 and "max_tokens" in text
    assert ask(DECODE, "/v1/completions", {**body, "model": "gpt"}, **{"X-Request-ID": name})[0] == 404


def test_endpoints_carry_the_mark_and_count_handoffs(engines: dict[str, Engine]) -> None:
    assert ask(DECODE, "/health")[0] == 200 and ask(DECODE, "/nowhere")[0] == 404
    assert "k3repro-twin" in ask(DECODE, "/version")[1] and "kimi-k3" in ask(DECODE, "/v1/models")[1]
    metrics = parse_metrics(ask(DECODE, "/metrics")[1])
    assert (metrics.total("k3repro_twin_handoffs", outcome="completed") or 0) >= 5
    assert metrics.total("k3repro_twin_handoffs_held") == 0 and not metrics.unread


def test_a_plain_request_needs_no_partner(engines: dict[str, Engine]) -> None:
    answer = ask(DECODE, "/v1/completions", {"model": "kimi-k3", "prompt": NEEDLE, "max_tokens": 8})
    assert said(answer) == " HELIOTROPE-7492"


def test_a_request_takes_its_place_in_the_lane_that_the_router_chose(engines: dict[str, Engine]) -> None:
    def tokens() -> list[float]:
        metrics = parse_metrics(ask(DECODE, "/metrics")[1])
        return [metrics.total("vllm:generation_tokens", engine=str(lane)) or 0.0 for lane in range(2)]

    before = tokens()
    body = {"model": "kimi-k3", "prompt": "x", "max_tokens": 7, "ignore_eos": True}
    for _ in range(3):
        assert ask(DECODE, "/v1/completions", body, **{"x-data-parallel-rank": "1"})[0] == 200
    assert [now - then for now, then in zip(tokens(), before, strict=True)] == [0, 21]
    assert said(routed("e1", 0, 1)[1]) == " HELIOTROPE-7492"
    after = tokens()
    assert after[0] == before[0] and after[1] > before[1] + 21


def test_a_rank_without_connector_answers_from_its_own_prefill_and_the_other_pool_dies(
    tmp_path: Path,
) -> None:
    """A headless decode worker without --kv-transfer-config binds no listener (recipe, section on flags).

    Its scheduler has no connector, so it computes the prompt itself: the answer is right, not empty as with
    missing peer hosts. The prefill pool waits for the listener that never comes, and dies of it.
    """
    p, d, w = "127.0.4.1", "127.0.4.2", "127.0.4.3"
    quick = {"transfer_timeout": "5"}
    p_config, d_config = transfer_config("prefill", [d, w], **quick), transfer_config("decode", [p], **quick)
    started = {
        "worker": (w, role_arguments("decode", "worker", d, None, dp=2)),
        "decode": (d, role_arguments("decode", "master", d, d_config, dp=2)),
        "prefill": (p, role_arguments("prefill", "master", p, p_config, dp=2, nodes=1)),
    }
    running = {
        name: Engine(tmp_path / f"{name}.log", host, arguments, **SCALE)
        for name, (host, arguments) in started.items()
    }
    try:
        for name in ("prefill", "decode"):
            running[name].until("Application startup complete.")
        assert "Initialized MoRIIO Connector" not in running["worker"].text
        assert said(routed("f0", 0, 0, hosts=(p, d))[1]) == " HELIOTROPE-7492"
        prefill, decode = routed("f1", 0, 1, hosts=(p, d))
        assert decode[0] == 200 and said(decode) == " HELIOTROPE-7492"
        assert prefill[0] == 500
        running["prefill"].until("Timed out waiting for write_ready_flags", 20)
        assert running["prefill"].process.wait(600) == 1
        assert ask(d, "/health")[0] == 200
    finally:
        for engine in running.values():
            engine.end()


def test_a_stop_drains_and_a_lost_worker_is_the_end_of_its_pool(engines: dict[str, Engine]) -> None:
    """Last: it ends the engines."""
    with ThreadPoolExecutor(1) as pool:
        body = {"model": "kimi-k3", "prompt": "x", "max_tokens": 900, "ignore_eos": True}
        late = pool.submit(ask, DECODE, "/v1/completions", body)
        while parse_metrics(ask(DECODE, "/metrics")[1]).total("vllm:num_requests_running") != 1:
            pass
        engines["decode"].send(signal.SIGTERM)
        status, text = late.result(600)
    assert status == 200 and json.loads(text)["usage"]["completion_tokens"] == 900
    assert engines["decode"].process.wait(600) == 0
    engines["worker"].send(signal.SIGKILL)
    assert engines["prefill"].process.wait(600) == 1
    fatal = parse_startup(engines["prefill"].text.splitlines()).fatal
    assert [name for _, name, _ in fatal] == ["engine-dead"]


def test_a_worker_without_its_master_says_so_and_a_taken_port_names_itself(tmp_path: Path) -> None:
    arguments = role_arguments("prefill", "worker", "127.0.3.9", None, dp=2)
    waiting = Engine(tmp_path / "worker.log", "127.0.3.8", arguments, K3REPRO_TWIN_FRONT_END_S="0.3")
    assert waiting.process.wait(600) == 1
    assert "Did not receive response from front-end process within" in waiting.text
