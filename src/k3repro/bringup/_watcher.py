"""Looking at a serve that is up, again and again: what was seen, what it means, what to do.

A look reads first (roles, logs, cards, metrics). It sends requests of its own only when nothing else is in
flight or nothing moves, so that it never competes with a measurement.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k3repro.bringup._cluster import Cluster, Node
from k3repro.bringup._executors import Executor, make_executor
from k3repro.bringup._http import ask, canary, get
from k3repro.bringup._node_status import RoleStatus, fatal_name, read_status, status_script
from k3repro.bringup._sanitise import hide
from k3repro.bringup._state import State, StateFile
from k3repro.bringup.health import (
    RELAUNCH,
    Advice,
    Sample,
    deferred_writes,
    judge_canary,
    judge_ranks,
    judge_restart,
    judge_wedge,
    sample_of,
)
from k3repro.serve import Metrics, parse_metrics
from k3repro.twin import needle_question, needle_sentence

__all__ = ["Look", "Watcher", "health_script", "read_health"]

_POOLS = ("prefill", "decode")
_EVERY_RANKS = 10  # a needle per DP rank costs two requests each: at the first look, then now and then


@dataclass(frozen=True, slots=True)
class Look:
    """One look. No `advice`: all is well. `canary` and `ranks` are (passed, asked), empty when not asked."""

    serve: str
    at_s: float
    sample: Sample
    roles_alive: tuple[int, int]
    canary: Mapping[int, tuple[int, int]]
    ranks: Mapping[int, tuple[int, int]]
    advice: tuple[Advice, ...]

    @property
    def ok(self) -> bool:
        """Nothing to do."""
        return not self.advice

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        document = asdict(self)
        document["sample"] = {"in_flight": self.sample.in_flight, "generated": self.sample.generated,
                              "gpu_busy": self.sample.gpu_busy}  # fmt: skip
        return {**document, "ok": self.ok}

    def line(self) -> str:
        """One line for people."""
        alive, started = self.roles_alive
        flight = "unknown" if self.sample.in_flight is None else self.sample.in_flight
        seen = [f"{alive} of {started} roles alive", f"{flight} in flight"]
        seen += [f"canary {c}: {ok} of {asked}" for c, (ok, asked) in sorted(self.canary.items())]
        if self.ranks:
            found, asked = (sum(count[i] for count in self.ranks.values()) for i in (0, 1))
            seen.append(f"needles over {len(self.ranks)} DP ranks: {found} of {asked}")
        words = [f"{item.name}: {item.what}. {item.do}" for item in self.advice] or ["well"]
        return f"{'; '.join(words)} ({', '.join(seen)})"


def health_script(cluster: Cluster, logs: Sequence[str]) -> str:
    """Print expired transfers of these logs and the load of every card; read by `read_health`."""
    root = shlex.quote(cluster.sysroot) if cluster.sysroot else "''"
    files = " ".join(shlex.quote(log) for log in logs)
    return (
        f"R={root}\n"
        f"grep -haF 'Deferred write task for request' {files or '/dev/null'} 2>/dev/null | tail -n 100\n"
        "for f in $R/sys/class/drm/card*/device/gpu_busy_percent; do\n"
        '  [ -f "$f" ] && echo "busy $(cat "$f" 2>/dev/null)"\ndone\ntrue\n'
    )


def read_health(out: str) -> tuple[list[str], float | None]:
    """Lines of expired transfers, and the busiest card in percent (None: no card says)."""
    lines = out.splitlines()
    busy = [float(line[5:]) for line in lines if line.startswith("busy ") and line[5:].strip().isdigit()]
    return [line for line in lines if not line.startswith("busy ")], max(busy, default=None)


class Watcher:
    """Looks at one serve and remembers what it saw. Close it when done."""

    def __init__(
        self, state: State, *, requests: bool = True, silent_s: float = 120.0, answer_s: float = 60.0
    ) -> None:
        self.state, self.requests, self.silent_s, self.answer_s = state, requests, silent_s, answer_s
        self.samples: list[Sample] = []
        self._looks = 0
        self._executor: Executor | None = None
        if state.roles:
            folder = StateFile(state.cluster).folder
            self._executor = make_executor(state.parsed_cluster(), job=state.job, folder=folder)

    async def close(self) -> None:
        """Give connections back."""
        if self._executor is not None:
            await self._executor.close()

    async def look(self) -> Look:
        """One look.

        Raises:
            MachineError: a node cannot be reached.
        """
        (statuses, lines, busy), pools = await asyncio.gather(self._nodes(), self._pools())
        advice = [*_roles(statuses), *_missing(pools)]
        sample = sample_of(time.monotonic(), pools, busy)
        self._remember(sample)
        advice += [judge_restart(self.samples), judge_wedge(self.samples, silent_s=self.silent_s)]
        advice += [deferred_writes(lines), await self._router()]
        passed: dict[int, tuple[int, int]] = {}
        ranks: dict[int, tuple[int, int]] = {}
        if self.requests and not await self._busy(sample):
            passed, ranks = await self._ask(pools)
            advice += [judge_canary(passed), judge_ranks(ranks, len(ranks))]
        self._looks += 1
        alive = sum(status.alive for status in statuses.values())
        wrong = tuple(item for item in advice if not item.ok)
        return Look(self.state.serve, time.time(), sample, (alive, len(statuses)), passed, ranks, wrong)

    def _remember(self, sample: Sample) -> None:
        self.samples.append(sample)
        keep = sample.at_s - 2 * self.silent_s
        # The first sample stays: a restart is judged against it.
        self.samples = self.samples[:1] + [item for item in self.samples[1:] if item.at_s >= keep]

    async def _nodes(self) -> tuple[dict[str, RoleStatus], list[str], float | None]:
        if self._executor is None:
            return {}, [], None
        executor, cluster, roles = self._executor, self.state.parsed_cluster(), self.state.roles

        async def one(node: Node) -> tuple[dict[str, RoleStatus], list[str], float | None]:
            here = {role: str(entry["log"]) for role, entry in roles.items() if entry["host"] == node.host}
            if not here:
                return {}, [], None
            script = status_script(cluster, self.state.serve, here)
            status = read_status(node, (await executor.run(node, script)).out)
            seen = await executor.run(node, health_script(cluster, list(here.values())))
            return status, *read_health(seen.out)

        found = await asyncio.gather(*(one(node) for node in cluster.nodes))
        loads = [busy for _, _, busy in found if busy is not None]
        statuses = {role: status for part, _, _ in found for role, status in part.items()}
        return statuses, [line for _, lines, _ in found for line in lines], max(loads, default=None)

    @property
    def _urls(self) -> dict[str, str]:
        urls = self.state.facts.get("metrics_urls", [])
        return dict(zip(_POOLS if len(urls) == 2 else ("serve",), urls, strict=False))

    async def _pools(self) -> dict[str, Metrics]:
        async def one(url: str) -> Metrics | None:
            status, body = await get(url, timeout_s=10)
            return parse_metrics(body) if status == 200 else None

        urls = self._urls
        found = await asyncio.gather(*(one(url) for url in urls.values()))
        return {pool: metrics or Metrics() for pool, metrics in zip(urls, found, strict=True)}

    async def _router(self) -> Advice:
        status, body = await get(f"{self.state.url}/health", timeout_s=10)
        if status == 200:
            return Advice("well")
        what = f"{self.state.url}/health says {status or 'nothing'}: {hide(body.strip())[:120]}"
        return Advice("router-not-ready", what, "Engines stopped pinging, or the router died. " + RELAUNCH)

    async def _busy(self, sample: Sample) -> bool:
        """Somebody else's requests are in flight and move: leave them alone."""
        if not sample.in_flight:
            return False
        await asyncio.sleep(min(2.0, self.silent_s / 4))
        later = sample_of(time.monotonic(), await self._pools())
        return (later.generated, later.prompts) != (sample.generated, sample.prompts)

    async def _ask(
        self, pools: Mapping[str, Metrics]
    ) -> tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]]:
        model = await self._model()
        passed: dict[int, tuple[int, int]] = {}
        for concurrency in (1, 4):
            failed = await canary(self.state.url, model, concurrency, timeout_s=self.answer_s)
            passed[concurrency] = (sum(not line for line in failed), concurrency)
            if failed == [line for line in failed if line]:
                return passed, {}  # nothing answers: a needle would say no more
        if self._looks % _EVERY_RANKS:
            return passed, {}
        return passed, await self._needles(model, _ranks_of(pools))

    async def _model(self) -> str:
        """The name the engines serve under: a P/D router does not tell."""
        for url in reversed(self._urls.values()):
            status, body = await get(url.removesuffix("/metrics") + "/v1/models", timeout_s=10)
            try:
                if status == 200:
                    return str(json.loads(body)["data"][0]["id"])
            except (ValueError, KeyError, IndexError, TypeError):
                continue
        return ""

    async def _needles(self, model: str, ranks: int) -> dict[int, tuple[int, int]]:
        """Two needles a DP rank, one request at a time; the rank is the one whose counter moved."""
        hits: dict[int, tuple[int, int]] = {}
        before = _by_rank((await self._pools()).get(list(self._urls)[-1], Metrics()))
        for number in range(2 * ranks):
            value = f"VIGIL-{secrets.randbelow(9000) + 1000}"
            key = f"rank-{number}"
            prompt = f"{needle_sentence(key, value)}\n\n{needle_question(key)}"
            wrong, text = await ask(self.state.url, model, tokens=24, prompt=prompt, timeout_s=self.answer_s)
            after = _by_rank((await self._pools()).get(list(self._urls)[-1], Metrics()))
            moved = [rank for rank in after if after[rank] != before.get(rank, 0.0)]
            rank, before = moved[0] if len(moved) == 1 else number % ranks, after
            found, asked = hits.get(rank, (0, 0))
            if not wrong:
                hits[rank] = (found + (value in text), asked + 1)
        return dict(sorted(hits.items()))


def _by_rank(metrics: Metrics) -> dict[int, float]:
    found: dict[int, float] = {}
    for sample in metrics.named("vllm:generation_tokens"):
        engine = sample.labels.get("engine", "")
        if engine.isdigit() and sample.value is not None:
            found[int(engine)] = found.get(int(engine), 0.0) + sample.value
    return found


def _ranks_of(pools: Mapping[str, Metrics]) -> int:
    return max((len(_by_rank(metrics)) for metrics in pools.values()), default=0) or 8


def _roles(statuses: Mapping[str, RoleStatus]) -> list[Advice]:
    found = []
    for status in statuses.values():
        cause = status.root_cause
        said = f", first error line {cause[0]}: {cause[1]}" if cause else ""
        if not status.alive:
            found.append(Advice("role-gone", f"{status.role} on {status.node}{said}", RELAUNCH))
        elif status.fatal:
            name = fatal_name(status.fatal[1])
            found.append(Advice(f"fatal-{name}", f"{status.role} on {status.node}{said}", RELAUNCH))
    return found


def _missing(pools: Mapping[str, Metrics]) -> list[Advice]:
    return [
        Advice("pool-silent", f"the {pool} master prints no metrics", "Look at its log; " + RELAUNCH)
        for pool, metrics in pools.items()
        if not metrics.samples
    ]
