"""Start-up lines against the plan: what the process twin prints, and what goes missing."""

from __future__ import annotations

import pytest

from k3repro.bringup import Plan, ServeFacts, diagram, load_cluster, load_recipe, make_plan, read_facts
from k3repro.bringup._facts import split_logs
from k3repro.serve.lines import print_kv_lines
from k3repro.serve.startup import connector_line, graph_line, moe_line

PRINTED = {"mi325x-thor2": (2_836_158, 1_000_000, 2.84), "mi300x-cx7": (916_875, 900_000, 1.02)}


def made(cluster: str) -> Plan:
    loaded = load_cluster(cluster)
    return make_plan(load_recipe(loaded.recipe), loaded)


def log(plan: Plan, role: str, cluster: str, tokens: int = 0) -> str:
    printed, length, concurrency = PRINTED[cluster]
    mode = plan.launch(role).document("--compilation-config")["cudagraph_mode"]
    lines = []
    for lane in range(4):
        lines += [
            graph_line("0.27", "/model", 2, 8, mode, prefix_caching=False), moe_line(int4=True),
            connector_line(f"e{lane}", "PRODUCER"),
            *print_kv_lines(tokens or printed, length, concurrency, version=(0, 27, 0)),
            "a line nobody knows",
        ]  # fmt: skip
    return "\n".join(lines)


def facts(cluster: str, **changed: str) -> ServeFacts:
    plan = made(cluster)
    logs = {launch.role: log(plan, launch.role, cluster) for launch in plan.launches}
    return read_facts(plan, logs | changed)


@pytest.mark.parametrize("cluster", PRINTED)
def test_the_published_lines_are_what_the_plan_predicts(cluster: str) -> None:
    found = facts(cluster)
    assert len(found.ranks) == 16 and all(rank.agrees for rank in found.ranks)
    assert {rank.rank for rank in found.ranks} == set(range(8))
    assert found.findings == () and found.unconnected == ()
    assert set(found.unmatched.values()) == {4}


def test_what_goes_missing_is_named() -> None:
    cluster = "mi325x-thor2"
    plan = made(cluster)
    whole = log(plan, "decode_worker", cluster)
    silent = facts(cluster, decode_worker="")
    assert any("decode_worker: 0 KV lines" in item for item in silent.findings)
    assert any("expert path" in item for item in silent.findings)
    assert silent.unconnected == ("decode_worker",)
    other = facts(cluster, decode_worker=log(plan, "decode_worker", cluster, tokens=999_999))
    assert sum("999,999 tokens, predicted 2,836,158" in item for item in other.findings) == 4
    eager = facts(
        cluster, decode_worker=whole.replace("CUDAGraphMode.FULL_AND_PIECEWISE", "CUDAGraphMode.NONE")
    )
    assert any("graph mode NONE" in item for item in eager.findings)
    torn = facts(cluster, decode_worker="Maximum concurrency for 5 tokens per request: 1.00x")
    assert any("without its token line" in item for item in torn.findings)


def test_logs_come_apart_again() -> None:
    paths = {"a": "/l/a.log", "b": "/l/b c.log"}
    out = "\n=== /l/a.log\none\n=== not a path\n\n=== /l/b c.log\ntwo\n"
    assert split_logs(out, paths) == {"a": "one\n=== not a path\n", "b": "two"}


def test_the_diagram_names_every_node() -> None:
    text = diagram(made("mi300x-cx7"))
    for word in (
        "pm 192.0.2.11",
        "pw 192.0.2.12",
        "dm 192.0.2.13",
        "dw 192.0.2.14",
        "mori_low_latency",
        ":30000",
    ):
        assert word in text
