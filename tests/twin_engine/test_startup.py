"""What an engine prints is what the parser reads; the numbers are those of the block law."""

from __future__ import annotations

import pytest
from engine_roles import COMMON, role_arguments, transfer_config
from hypothesis import given
from hypothesis import strategies as st

from k3repro.serve.lines import parse_kv_lines
from k3repro.serve.startup import FATAL, connector_line, graph_line, moe_line, parse_startup
from k3repro.twin.engine import RoleLaunch, read_launch
from k3repro.twin.engine._connector import EngineDead
from k3repro.twin.engine._log import log_to
from k3repro.twin.engine._startup import Startup


def printed(launch: RoleLaunch, platform: str, version: str = "0.27") -> list[str]:
    lines: list[str] = []
    startup = Startup(launch, platform, version, log_to(lines.append))
    startup.engine_lines("abc")
    startup.ready_lines()
    return lines


def launch(*more: str, pool: str = "decode", kind: str = "master") -> RoleLaunch:
    config = transfer_config(pool, ["a", "b"])
    return read_launch([*role_arguments(pool, kind, "127.0.0.1", config), *more], {})


@pytest.mark.parametrize(
    ("platform", "pool", "length", "tokens", "concurrency"),
    [("mi300x", 13 * 10**9, 900_000, 916_875, 1.02), ("mi325x", 40 * 10**9, 1_000_000, 2_836_158, 2.84)],
)
def test_the_published_lines(platform: str, pool: int, length: int, tokens: int, concurrency: float) -> None:
    more = ["--kv-cache-memory-bytes", str(pool), "--max-model-len", str(length)]
    lines = printed(launch(*more), platform)
    pools = parse_kv_lines(lines)
    assert [(p.tokens, p.max_model_len, p.concurrency) for p in pools] == [(tokens, length, concurrency)] * 4
    facts = parse_startup(lines)
    assert facts.ranks == {0, 1, 2, 3} and facts.graph == "PIECEWISE" and facts.moe == "mxfp4"
    assert set(facts.connectors.values()) == {"CONSUMER"} and len(facts.connectors) == 4
    assert facts.ready == 8 and not facts.fatal and facts.unmatched == 1  # the API server's address


def test_a_worker_speaks_for_its_own_lanes_and_a_later_version_in_one_line() -> None:
    lines = printed(launch(kind="worker"), "mi300x", version="0.28.0")
    assert parse_startup(lines).ranks == {4, 5, 6, 7}
    assert sum(" KV cache size: " in line and "Maximum concurrency" in line for line in lines) == 4


def test_int4_experts_are_said() -> None:
    lines = printed(launch("--quantization-config", '{"moe":{"weight":"int4_per_group_32"}}'), "mi300x")
    assert parse_startup(lines).moe == "int4" and any("WARNING" in line for line in lines)


def test_prefix_caching_changes_the_pool_as_the_block_law_says() -> None:
    # Block law, mode align: the same pool holds less, so 900,000 tokens take all of it.
    lines = printed(launch("--enable-prefix-caching"), "mi300x")
    assert parse_kv_lines(lines)[0].tokens == 900_000


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (("--max-model-len", "1000000"), "kv-too-small"),
        (("--max-num-batched-tokens", "16384"), "codegen"),
    ],
)
def test_launches_that_kill_the_engine_say_why_first(more: tuple[str, ...], name: str) -> None:
    lines: list[str] = []
    startup = Startup(launch(*more), "mi300x", "0.27", log_to(lines.append))
    with pytest.raises(EngineDead, match="Engine core initialization failed"):
        startup.engine_lines("abc")
    assert [found[1] for found in parse_startup(lines).fatal] == [name]


words = st.text("abcdef0123456789", min_size=1)


@given(
    words,
    st.sampled_from(["PRODUCER", "CONSUMER"]),
    st.sampled_from(["NONE", "PIECEWISE", "FULL"]),
    st.booleans(),
)
def test_what_is_printed_is_parsed(engine: str, role: str, graph: str, int4: bool) -> None:
    lines = [
        connector_line(engine, role),
        graph_line("0.27", "/model", 2, 8, graph, prefix_caching=False),
        moe_line(int4=int4),
        "something else",
        "",
    ]
    facts = parse_startup(lines)
    assert facts.connectors == {engine: role} and facts.graph == graph
    assert facts.moe == ("int4" if int4 else "mxfp4") and facts.unmatched == 1


def test_every_fatal_text_is_found_and_the_first_comes_first() -> None:
    for name, text in FATAL.items():
        facts = parse_startup(["fine", f"(EngineCore_DP3 pid=1) ERROR {text} 5", "EngineDeadError"])
        assert facts.fatal[0][:2] == (2, name) and facts.ranks == {3}


def test_the_common_options_are_those_of_the_recipe() -> None:
    assert "--kv-cache-memory-bytes" in COMMON and "--no-enable-prefix-caching" in COMMON
