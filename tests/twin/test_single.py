"""The single node: a roofline worked out by hand, a scheduler as properties, a target like any other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.budget import passes_of
from k3repro.client import Request, open_target, run_wave
from k3repro.errors import UsageError
from k3repro.probes.setting import setting_of
from k3repro.spec import load_model, load_platform
from k3repro.twin import Cluster, Flight, platform, platform_sources
from k3repro.twin.single import SingleNode
from k3repro.twin.single_core import SingleCore
from k3repro.twin.waves import simulate_wave

MODELS = ("llama-3.1-405b", "deepseek-v3.2", "qwen3-vl-235b", "kimi-k2.5")
END = 10**18


def node(model: str = "llama-3.1-405b", **changes: int | str) -> SingleNode:
    found = platform(f"mi325x-1n/{model}")
    assert isinstance(found, SingleNode)
    return found.with_overrides({"jitter_ppm": "0", **{k: str(v) for k, v in changes.items()}})


def run(spec: SingleNode, shapes: list[tuple[int, int]], gap_ns: int = 0) -> tuple[SingleCore, list[Flight]]:
    core = SingleCore(spec, 0)
    flights = []
    for index, (prompt, output) in enumerate(shapes):
        core.advance(index * gap_ns)
        flights.append(core.submit(prompt, output))
    core.advance(END)
    return core, flights


def test_a_step_alone_reads_every_weight_once() -> None:
    """Llama in FP8 over eight GPUs, by hand: weights over bandwidth, and the cache of one context."""
    spec, gpu = node(), load_platform("mi325x")
    passes = passes_of(load_model("llama-3.1-405b"), "fp8")
    _, [flight] = run(spec, [(500, 3)])
    gaps = [b - a for a, b in zip(flight.times, flight.times[1:], strict=False)]
    read = passes.shared_bytes / 8 + 2 * 126 * 1 * 128 * 1 * 501
    assert gaps[0] == pytest.approx(read / gpu.hbm_bytes_per_s * 1e9, rel=1e-3)


def test_prefill_takes_the_dense_peak() -> None:
    spec, gpu = node(), load_platform("mi325x")
    _, [flight] = run(spec, [(8192, 1)])
    matrix = passes_of(load_model("llama-3.1-405b"), "fp8").matrix
    attention = 4 * 128 * 128 * 126 * 8192 * 8193 / 2 / gpu.bf16_flops / 8
    least = 2 * matrix * 8192 / gpu.fp8_flops / 8 + attention
    assert (flight.times[0] - spec.gather_ns) / 1e9 == pytest.approx(least, rel=1e-3)


@pytest.mark.parametrize("model", ["deepseek-v3.2", "qwen3-vl-235b", "kimi-k2.5"])
def test_experts_touched_are_those_of_the_budget(model: str) -> None:
    """Fixed point against the formula in doubles; never more than all of them."""
    work, passes = node(model).work(), passes_of(load_model(model))
    for tokens in (1, 2, 8, 64, 1000, 8192):
        wanted = passes.experts_touched(tokens) * work.expert_bytes
        assert work.touched(tokens) == pytest.approx(wanted, rel=1e-9)
    assert work.touched(10**6) <= work.expert_bytes * work.experts


@settings(max_examples=30, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    requests=st.integers(1, 60),
    prompt=st.integers(1, 3000),
    output=st.integers(1, 40),
    budget=st.sampled_from([512, 2048, 8192]),
    slots=st.sampled_from([2, 16, 1024]),
)
def test_no_wave_beats_its_roofline(
    model: str, requests: int, prompt: int, output: int, budget: int, slots: int
) -> None:
    spec = node(model, max_num_batched_tokens=budget, max_num_seqs=slots)
    wave, work = simulate_wave(spec, requests, prompt, output), spec.work()
    tokens = requests * (prompt + output - 1)
    compute = work.token_fs * tokens / 1e15
    rounds = -(-requests // slots) * output
    memory = rounds * work.memory_ns(1, 0) / 1e9 * 0.999
    assert wave.wall_s >= max(compute, memory)
    assert wave.resident <= slots


@settings(max_examples=25, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 2500), st.integers(1, 30)), min_size=1, max_size=25),
    gap_ms=st.integers(0, 60),
    budget=st.sampled_from([64, 1000]),
    slots=st.sampled_from([1, 3, 64]),
    blocks=st.sampled_from([250, 4000]),
)
def test_every_request_gets_its_tokens_and_gives_everything_back(
    shapes: list[tuple[int, int]], gap_ms: int, budget: int, slots: int, blocks: int
) -> None:
    """Also where blocks run out, so that requests are thrown out and computed again."""
    pool = blocks * 16 * 32256
    spec = node(max_num_batched_tokens=budget, max_num_seqs=slots, kv_pool_bytes=pool, max_model_len=3000)
    core, flights = run(spec, shapes, gap_ms * 1_000_000)
    for flight, (prompt, output) in zip(flights, shapes, strict=True):
        assert len(flight.times) == output
        assert all(a < b for a, b in zip(flight.times, flight.times[1:], strict=False))
        assert flight.arrival_ns < flight.prefill_start_ns + 1 <= flight.times[0]
        first = [tokens for _, end, tokens in flight.chunks if end <= flight.times[0]]
        assert sum(first) == prompt
    steps: dict[int, int] = {}
    for flight in flights:
        for _, end, tokens in flight.chunks:
            steps[end] = steps.get(end, 0) + tokens
    assert max(steps.values()) <= budget
    pool_of = core.decode.pools[0]
    assert (pool_of.used, core.decode.running, core.decode.lane_slots) == (0, 0, [0])
    assert core.next_event_ns() is None and not core.flights


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), min_size=1, max_size=8), seed=st.integers(0, 3))
def test_cancelling_gives_everything_back(cuts: list[int], seed: int) -> None:
    """At any moment: queued, in prefill, decoding; the others end as if nothing had happened."""
    spec = node(max_num_batched_tokens=600, max_num_seqs=5)
    core = SingleCore(spec, seed)
    flights = [core.submit(700, 12) for _ in range(10)]
    for index, cut in enumerate(sorted(cuts)):
        core.advance(cut * 1_000_000)
        core.cancel(flights[index])
    core.advance(END)
    assert all(flight.cancelled or len(flight.times) == 12 for flight in flights)
    assert (core.decode.pools[0].used, core.decode.lane_slots, core.decode.filling) == (0, [0], [])


def test_prompts_that_share_a_prefix_are_computed_once() -> None:
    spec = node(prefix_caching=1)
    hashes = list(range(31))
    same, apart = SingleCore(spec, 0), SingleCore(spec, 0)
    for index in range(100):
        same.submit(500, 20, hashes)
        apart.submit(500, 20, [number + 1000 * (index + 1) for number in hashes])
    same.advance(END)
    apart.advance(END)
    assert same.prefill.hits[0] == 99 * 31 * 16 and apart.prefill.hits == [0]
    assert same.decode.pools[0].used == apart.decode.pools[0].used == 0
    off = SingleCore(node(prefix_caching=0), 0)
    off.submit(500, 20, hashes)
    off.advance(END)
    assert off.prefill.queries == [0]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_small_blocks_change_little(block: int) -> None:
    """Taken some at a time, and one by one where the pool is short: every request ends, nothing leaks."""
    for blocks in (900, 10**5):
        spec = node("kimi-k2.5", block_size=block, kv_pool_bytes=blocks * 70_272, max_model_len=800)
        core, flights = run(spec, [(200, 60)] * 12)
        assert [len(flight.times) for flight in flights] == [60] * 12
        assert core.decode.pools[0].used == 0
        assert blocks == 900 or not sum(core.decode.preemptions)


def test_thrown_out_requests_come_back() -> None:
    spec = node(kv_pool_bytes=60 * 16 * 32256, max_model_len=900)
    core, flights = run(spec, [(200, 300)] * 4)
    assert sum(core.decode.preemptions) > 0
    assert [len(flight.times) for flight in flights] == [300] * 4


@pytest.mark.parametrize(
    ("target", "match"),
    [
        ("mi325x-1n/no-such-model", "no simulated node"),
        ("mi999-1n/kimi-k2.5", "no simulated node"),
        ("mi325x/kimi-k2.5", "no simulated node"),
        ("mi325x-1n/", "no simulated node"),
    ],
)
def test_names_that_are_no_node(target: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        platform(target)


@pytest.mark.parametrize(
    ("model", "setting", "match"),
    [
        ("llama-3.1-405b", {"c0_ns": "1"}, "a single node has no setting 'c0_ns'"),
        ("llama-3.1-405b", {"defect": "kv-write-race=0.5"}, "needs two pools"),
        ("llama-3.1-405b", {"tp": "3"}, "does not divide"),
        ("llama-3.1-405b", {"tp": "1"}, "do not fit"),
        ("llama-3.1-405b", {"kv_pool_bytes": str(10**12)}, "the weights leave"),
        ("llama-3.1-405b", {"quantization": "fp7"}, "fp7"),
        ("kimi-k2.5", {"max_num_seqs": "0"}, "at least 1"),
        ("kimi-k2.5", {"kv_offload_bytes": "1000000000"}, "rule kv-offload-mla"),
        ("kimi-k2.5", {"tp": "8"}, "rule block-1-aiter-heads"),
        ("kimi-k2.5", {"tp": "8", "block_size": "16", "aiter": "1"}, "rule aiter-mla-heads-16-or-128"),
        ("deepseek-v3.2", {"block_size": "16"}, "rule sparse-mla-block-1-only"),
        ("qwen3-vl-235b", {"quantization": "fp8"}, "rule fp8-blanket-vision-shard"),
    ],
)
def test_settings_that_cannot_be(model: str, setting: dict[str, str], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        SingleCore(platform(f"mi325x-1n/{model}").with_overrides(setting), 0)  # type: ignore[arg-type]


def test_what_is_launched_is_what_was_published() -> None:
    kimi = platform("mi325x-1n/kimi-k2.5")
    assert isinstance(kimi, SingleNode) and (kimi.tp, kimi.block_size) == (4, 1)
    llama = platform("mi325x-1n/llama-3.1-405b")
    assert isinstance(llama, SingleNode) and (llama.quantization, llama.kv_dtype) == ("fp8", "fp8")
    assert "guide" in platform_sources("mi325x-1n/llama-3.1-405b")["tp"]
    # A model that nobody launched there takes the engine's defaults, and says so.
    other = platform("mi300x-1n/qwen2.5-7b")
    assert isinstance(other, SingleNode) and other.tp == 4 and other.layout == ""
    assert "assumption" in platform_sources("mi300x-1n/gpt-oss-120b")["tp"]


def test_what_the_engine_substitutes_starts_and_is_said() -> None:
    kimi = platform("mi325x-1n/kimi-k2.5")
    assert isinstance(kimi, SingleNode)
    assert [(rule.id, rule.outcome) for rule in kimi.rules] == [("block-1-turns-aiter-on", "substitutes")]
    assert "AITER" in platform_sources("mi325x-1n/kimi-k2.5")["rule block-1-turns-aiter-on"]
    newer = kimi.with_overrides({"engine": "0.18.0", "kv_offload_bytes": "1000000000"})
    assert not [rule for rule in newer.rules if rule.outcome == "deny"]
    # Nobody launched it there: the default block size is one that its attention takes.
    assert platform("mi325x-1n/glm-5.1").block_size == 1  # type: ignore[attr-defined]


def test_a_target_like_any_other() -> None:
    """Through bytes and client: marked, sized, priced, and as fast as the core alone says."""
    with open_target("twin:mi325x-1n/llama-3.1-405b?jitter_ppm=0") as target:
        assert target.model == "llama-3.1-405b" and "k3repro-twin" in str(target.serve["evidence"])
        requests = [Request(f"r{index}", [97] * 500, 50) for index in range(40)]
        records = target.run(run_wave, requests, concurrency=40)
    assert {record.outcome.value for record in records} == {"completed"}
    assert all("k3repro-twin" in (record.fingerprint or "") for record in records)
    wall = max(record.done_ns or 0 for record in records) - min(record.sent_ns for record in records)
    alone = simulate_wave(node(prefix_caching=0), 40, 500, 50)
    shared = simulate_wave(node(), 1, 500, 50)
    assert shared.wall_s < wall / 1e9 <= alone.wall_s * 1.01
    found = setting_of("twin:mi325x-1n/kimi-k2.5?max_num_seqs=64")
    assert found is not None and (found.platform, found.max_num_seqs, found.engine.tp) == ("mi325x", 64, 4)


def test_metrics_of_a_node_count_its_requests() -> None:
    cluster = Cluster(node(), 3)
    flight = cluster.core.submit(100, 5)
    cluster.core.advance(END)
    cluster.finished(flight, "length")
    text = bytes(cluster.handle("GET", "/metrics", b"")).decode()  # type: ignore[arg-type]
    assert "k3repro_twin_info" in text
    assert 'vllm:generation_tokens_total{engine="0",model_name="llama-3.1-405b"} 5.0' in text
