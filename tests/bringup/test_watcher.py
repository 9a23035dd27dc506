"""The watch against the twin with the matching defects on: each is named, a healthy serve is left alone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.bringup import Look, State, StateFile, Watcher, load_cluster
from k3repro.bringup._watcher import health_script, read_health
from k3repro.bringup.health import Sample
from k3repro.cli import root
from k3repro.twin import Cluster, platform, serve_http

TEXT = (Path(__file__).parents[2] / "pipelines/clusters/mi325x-thor2.toml").read_text()


def state_of(port: int) -> State:
    url = f"http://127.0.0.1:{port}"
    facts = {"metrics_urls": [f"{url}/metrics"]}
    return State("up-1", "mi325x-thor2", TEXT, "digest", "answering", url, [], 1.0, 1.0, facts=facts)


Work = Callable[[Watcher, int], Awaitable[list[asyncio.Task[None]]]]


def looks(defect: str = "", *, scale: float = 500, work: Work | None = None, **options: float) -> list[Look]:
    """One look, then `work` and a second one."""

    async def main() -> list[Look]:
        spec = replace(platform("mi325x"), defect=defect)
        async with serve_http(Cluster(spec, 0), time_scale=scale) as (_, port):
            watcher = Watcher(state_of(port), **{"answer_s": 600.0, **options})  # type: ignore[arg-type]
            found = [await watcher.look()]
            if work is not None:
                tasks = await work(watcher, port)
                found.append(await watcher.look())
                await _stop(tasks)
            await watcher.close()
        return found

    return asyncio.run(main())


def names(look: Look) -> list[str]:
    return [item.name for item in look.advice]


def test_a_healthy_serve_is_well() -> None:
    (look,) = looks()
    assert look.ok and look.canary == {1: (1, 1), 4: (4, 4)}
    assert look.ranks == dict.fromkeys(range(8), (2, 2))
    assert "well" in look.line() and "needles over 8 DP ranks: 16 of 16" in look.line()
    assert json.loads(json.dumps(look.as_dict()))["ok"] is True


def test_lanes_without_context_are_named() -> None:
    (look,) = looks("missing-peers=1")
    assert names(look) == ["ranks-without-context"]
    assert "ranks 1, 2, 3, 4, 5, 6, 7 of 8" in look.advice[0].what


async def _start_some(port: int, count: int, words: int = 50) -> list[asyncio.Task[None]]:
    """So many requests, all in flight, that run for hours."""

    async def one() -> None:
        body = json.dumps(
            {"model": "kimi-k3", "prompt": "x " * words, "max_tokens": 400_000, "ignore_eos": True}
        )
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{head}Content-Type: application/json\r\n\r\n{body}".encode())
        try:
            await reader.read()
        finally:
            writer.close()
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one()) for _ in range(count)]
    while await _in_flight(port) < count:
        await asyncio.sleep(0.01)
    return tasks


async def _in_flight(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    return int(sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(names)))


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_killed_wave_leaves_the_degraded_fabric() -> None:
    async def work(watcher: Watcher, port: int) -> list[asyncio.Task[None]]:
        await _stop(await _start_some(port, 8, 200_000))  # long enough to be on their way for many seconds
        watcher.answer_s = 4.0  # from here on answers stay away
        return []

    first, look = looks("fabric-wedged", work=work, scale=50)
    assert first.ok
    assert "fabric-degraded" in names(look), look.line()
    advice = look.advice[names(look).index("fabric-degraded")]
    assert "concurrency 1 passes" in advice.what and "all four" in advice.do


def test_silence_with_requests_in_flight_is_a_wedge() -> None:
    async def work(watcher: Watcher, port: int) -> list[asyncio.Task[None]]:
        tasks = await _start_some(port, 8)
        for _ in range(4):
            watcher.requests = False
            await watcher.look()
            await asyncio.sleep(0.5)
        watcher.requests = True
        return tasks

    last = looks("idle-stall=1", work=work, silent_s=1.2, answer_s=1.0)[-1]
    assert "wedged" in names(last), last.line()


def test_somebody_elses_work_is_left_alone() -> None:
    async def work(watcher: Watcher, port: int) -> list[asyncio.Task[None]]:
        return await _start_some(port, 4)

    last = looks(work=work, scale=20)[-1]
    assert last.sample.in_flight and not last.canary and last.ok, last.line()


def test_a_pool_whose_counters_went_back_was_restarted() -> None:
    async def main() -> Look:
        spec = platform("mi325x")
        async with serve_http(Cluster(spec, 0), time_scale=500) as (_, prefill):
            async with serve_http(Cluster(spec, 0), time_scale=500) as (_, decode):
                state = state_of(decode)
                state.facts["metrics_urls"] = [
                    f"http://127.0.0.1:{port}/metrics" for port in (prefill, decode)
                ]
                watcher = Watcher(state, answer_s=600.0)
                assert (await watcher.look()).ok
                assert (await watcher.look()).ok
            async with serve_http(Cluster(spec, 0), time_scale=500, port=decode):
                look = await watcher.look()
                await watcher.close()
                return look

    look = asyncio.run(main())
    assert names(look) == ["pool-restarted-alone"] and "decode started anew" in look.advice[0].what


def test_a_serve_that_is_gone() -> None:
    async def main() -> Look:
        watcher = Watcher(state_of(9), answer_s=1.0)  # the discard port: nobody listens
        return await watcher.look()

    assert {"pool-silent", "router-not-ready"} <= set(names(asyncio.run(main())))


def test_logs_and_cards_are_read_on_the_node(tmp_path: Path) -> None:
    import subprocess

    log, card = tmp_path / "a b.log", tmp_path / "root/sys/class/drm/card0/device"
    log.write_bytes(
        b"\xff noise\nERROR Deferred write task for request r-1 expired after 60.0s (remote blocks never)\n"
    )
    card.mkdir(parents=True)
    (card / "gpu_busy_percent").write_text("37\n")
    cluster = replace(load_cluster("mi325x-thor2"), sysroot=str(tmp_path / "root"))
    script = health_script(cluster, [str(log), str(tmp_path / "no.log")])
    out = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, check=True).stdout
    lines, busy = read_health(out)
    assert busy == 37.0 and len(lines) == 1 and "r-1" in lines[0]
    assert read_health("") == ([], None)


def test_memory_of_samples_is_bounded() -> None:
    watcher = Watcher(state_of(9), silent_s=10)
    for second in range(1000):
        watcher._remember(Sample(float(second), 0, 0))
    assert len(watcher.samples) < 30 and watcher.samples[0].at_s == 0.0


def test_the_command_says_it_and_ends_with_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path))
    argv = ["bringup", "watch", "--cluster", "mi325x-thor2"]
    result = CliRunner().invoke(root, argv)
    assert result.exception is not None and "no serve to watch" in str(result.exception)
    StateFile("mi325x-thor2").save(state_of(9))
    result = CliRunner().invoke(root, [*argv, "--answer", "1"])
    assert result.exit_code == 1 and "router-not-ready" in result.output
    result = CliRunner().invoke(root, [*argv, "--answer", "1", "--json"])
    assert result.exit_code == 1 and json.loads(result.output.splitlines()[0])["ok"] is False
    result = CliRunner().invoke(root, [*argv, "--answer", "1", "--once", "--json"])
    assert result.exit_code == 1 and json.loads(result.output)["serve"] == "up-1"


def test_a_look_is_plain_data() -> None:
    look = Look("up-1", time.time(), Sample(0.0, None, None), (0, 0), {}, {}, ())
    assert asdict(look)["serve"] == "up-1" and "unknown in flight" in look.line()
