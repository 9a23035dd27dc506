"""What engines said while they came up, rank by rank, beside what the budget predicts for the plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from k3repro.bringup._plan import Launch, Plan, url_host
from k3repro.bringup._sanitise import hide
from k3repro.capacity import BlockLaw, Engine, block_law, check_startup, parse_version
from k3repro.errors import InputError
from k3repro.serve.lines import KvLines, parse_kv_lines
from k3repro.serve.startup import parse_startup

LOG_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class RankFacts:
    """One role's KV lines against the prediction; `agrees` None when it printed none."""

    role: str
    rank: int
    printed_tokens: int | None
    predicted_tokens: int
    printed_concurrency: float | None
    predicted_concurrency: float
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class ServeFacts:
    """Facts of a serve from its logs. `unmatched` counts lines no pattern knows, per role."""

    ranks: tuple[RankFacts, ...]
    moe: Mapping[str, str | None]
    graph: Mapping[str, str | None]
    unmatched: Mapping[str, int]
    connectors: Mapping[str, int]
    findings: tuple[str, ...]
    startup_lines: tuple[str, ...]

    @property
    def unconnected(self) -> tuple[str, ...]:
        """Roles with fewer connectors than others: a renamed line would be missing everywhere."""
        most = max(self.connectors.values(), default=0)
        return tuple(role for role, count in self.connectors.items() if count < most)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the state file and the serve record."""
        return asdict(self)


def logs_script(logs: Iterable[str]) -> str:
    """Print the beginning of each log, at most `LOG_BYTES`, each under a line of its own."""
    lines = [
        f"echo; echo {shlex.quote(f'=== {log}')}; head -c {LOG_BYTES} {shlex.quote(log)}" for log in logs
    ]
    return "\n".join([*lines, "true"]) + "\n"


def split_logs(out: str, logs: Mapping[str, str]) -> dict[str, str]:
    """Role -> text, from the answer of `logs_script`; `logs` maps roles to paths."""
    found, current = dict[str, list[str]](), ""
    paths = {path: role for role, path in logs.items()}
    for line in out.splitlines():
        if line.startswith("=== ") and line[4:] in paths:
            current = paths[line[4:]]
            found[current] = []
        elif current:
            found[current].append(line)
    return {role: "\n".join(lines) for role, lines in found.items()}


def law_of(plan: Plan) -> BlockLaw:
    """The block law of the plan's engine."""
    layout, launch = plan.recipe.layout, plan.launches[0]
    engine = Engine(
        version=parse_version(str(plan.recipe.get("pins", "engine_version"))), tp=layout.tp, dp=layout.dp,
        kv_dtype=layout.kv_dtype, prefix_caching="--no-enable-prefix-caching" not in launch.engine,
        block_size=layout.block_size, in_flight_tokens=layout.max_num_batched_tokens or 2048,
    )  # fmt: skip
    return block_law(plan.recipe.model, engine)


def read_facts(plan: Plan, logs: Mapping[str, str]) -> ServeFacts:
    """Parse the logs of all roles; findings say what is missing or not as predicted."""
    law = law_of(plan)
    ranks: list[RankFacts] = []
    moe, graph, unmatched = dict[str, str | None](), dict[str, str | None](), dict[str, int]()
    connectors: dict[str, int] = {}
    findings: list[str] = []
    lines: list[str] = []
    for launch in plan.launches:
        text = logs.get(launch.role, "")
        facts = parse_startup(text.splitlines())
        moe[launch.role], graph[launch.role] = facts.moe, facts.graph
        unmatched[launch.role], connectors[launch.role] = facts.unmatched, len(facts.connectors)
        kv = _kv(text, launch.role, findings)
        ranks += _ranks(launch, kv, law, plan)
        findings += _missing(launch, plan, len(kv), facts.moe, facts.graph)
        lines += [hide(line.strip()) for line in text.splitlines() if "KV cache size" in line][:1]
    findings += [
        f"{at.role} DP rank {at.rank}: {at.printed_tokens:,} tokens, predicted {at.predicted_tokens:,}"
        for at in ranks
        if at.agrees is False
    ]  # fmt: skip
    return ServeFacts(tuple(ranks), moe, graph, unmatched, connectors, tuple(findings), tuple(lines))


def _kv(text: str, role: str, findings: list[str]) -> list[KvLines]:
    try:
        return parse_kv_lines(text.splitlines())
    except InputError as error:
        findings.append(f"{role}: {error.what}")
        return []


def _ranks(launch: Launch, kv: list[KvLines], law: BlockLaw, plan: Plan) -> list[RankFacts]:
    layout = plan.recipe.layout
    blocks = law.pool_blocks(layout.kv_pool_bytes)
    tokens = law.printed_tokens(blocks, layout.max_model_len)
    predicted = law.concurrency(blocks, layout.max_model_len)
    first = 0 if launch.node.master else _local(plan)
    found = []
    for index, printed in enumerate(kv):
        check = check_startup(
            law, tokens=printed.tokens, max_model_len=printed.max_model_len or layout.max_model_len,
            concurrency=printed.concurrency, kv_bytes=layout.kv_pool_bytes,
        )  # fmt: skip
        found.append(
            RankFacts(
                launch.role,
                first + index,
                printed.tokens,
                tokens,
                printed.concurrency,
                predicted,
                check.agrees,
            )
        )
    return found


def _local(plan: Plan) -> int:
    return plan.recipe.platform.gpus_per_node // plan.recipe.layout.tp


def _missing(launch: Launch, plan: Plan, kv: int, moe: str | None, graph: str | None) -> list[str]:
    findings = []
    if kv != _local(plan):
        findings.append(
            f"{launch.role}: {kv} KV lines, {_local(plan)} DP ranks: a rank or a known line is missing"
        )
    if moe is None:
        findings.append(f"{launch.role}: no line names the expert path")
    want = launch.document("--compilation-config").get("cudagraph_mode")
    if graph is not None and want and graph != want:
        findings.append(f"{launch.role}: graph mode {graph} where {want} was asked for")
    return findings


def metrics_urls(plan: Plan) -> list[str]:
    """Where the masters print their metrics."""
    return [
        f"http://{url_host(launch.node.address)}:{launch.flag('--port')}/metrics"
        for launch in plan.launches
        if launch.node.master
    ]
