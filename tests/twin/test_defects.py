"""Every defect: off by default, documented, and with the symptom it promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from k3repro.client import Outcome, Request, RequestRecord, open_target, run_wave
from k3repro.errors import UsageError
from k3repro.serve import parse_metrics
from k3repro.twin import DEFECTS, Core, platform
from k3repro.twin._faults import canonical
from k3repro.twin._request import HOLD
from k3repro.twin._virtual import VirtualDriver

DOCS = Path(__file__).parents[2] / "docs" / "defects.md"
EXPIRED = "vllm:moriio_num_kv_expired_reqs"
METRIC_TTFT = "vllm:time_to_first_token_seconds"


def asked(count: int, *, chat: bool = False, hay: str = "", tokens: int = 32) -> list[Request]:
    requests = []
    for index in range(count):
        text = f"{hay}The secret token for k{index} is ABC-{1000 + index}. "
        text += f"What is the secret token for k{index}?"
        prompt = [{"role": "user", "content": text}] if chat else text
        requests.append(Request(f"r{index}", prompt, tokens, ignore_eos=False, chat=chat))
    return requests


def forced(count: int) -> list[Request]:
    return [Request(f"f{index}", f"Write about {index}.", 40) for index in range(count)]


class Seen:
    """One wave against a twin, and its metrics afterwards."""

    def __init__(
        self, defect: str, requests: Sequence[Request], concurrency: int, seed: int = 3, name: str = "mi325x"
    ) -> None:
        target = f"twin:{name}?defect={defect}" if defect else f"twin:{name}"
        with open_target(target, seed=seed) as opened:
            self.records: list[RequestRecord] = opened.run(
                run_wave, requests, concurrency=concurrency, timeout_s=400
            )
            self.page = opened.run(lambda t: t.fetch("/metrics")).text
            assert isinstance(opened.transport, VirtualDriver)
            self.log = opened.transport.cluster.core.log
        self.metrics = parse_metrics(self.page)
        self.outcomes = Counter(record.outcome for record in self.records)

    @property
    def hits(self) -> int:
        return sum(f"ABC-{1000 + int(record.request_id[1:])}" in record.text for record in self.records)

    @property
    def leaks(self) -> int:
        return sum("ABC-" in record.text for record in self.records) - self.hits

    def mean(self, name: str) -> float:
        total, count = self.metrics.total(f"{name}_sum"), self.metrics.total(f"{name}_count")
        assert total is not None and count
        return total / count


def ttft(records: Sequence[RequestRecord]) -> float:
    found = [record.ttft_s for record in records if record.ttft_s is not None]
    return sum(found) / len(found)


def test_none_is_on_by_default() -> None:
    assert Core(platform("mi325x"), 0).defects is None
    clean = Seen("", asked(64), 32)
    assert clean.hits == 64 and clean.outcomes == {Outcome.COMPLETED: 64}
    assert clean.metrics.total("vllm:moriio_num_failed_transfers") == 0


def test_every_defect_is_documented_and_tested() -> None:
    text, here = DOCS.read_text(encoding="utf-8"), Path(__file__).read_text(encoding="utf-8")
    for name, fault in DEFECTS.items():
        assert f"## {name}" in text
        for words in (fault.cause, fault.rate, fault.log, fault.metrics, fault.symptom):
            assert words in text, (name, words)
        assert f'"{name}' in here or f"defect={name}" in here, f"{name} has no test"


@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_the_log_says_what_is_documented(defect: str) -> None:
    told = DEFECTS[defect].log
    if defect == "fabric-wedged":
        pytest.skip(
            "needs a killed wave: test_a_write_that_never_arrives_expires_in_the_log_and_leaks_nothing"
        )
    assert set(Seen(f"{defect}=1", forced(64), 32).log) == ({told} if told != "nothing" else set())


@pytest.mark.parametrize(
    "defect", sorted(name for name, fault in DEFECTS.items() if fault.metrics.startswith("none moves"))
)
def test_no_metric_moves_where_none_is_said_to(defect: str) -> None:
    def counted(seen: Seen) -> list[str]:
        return [line for line in seen.page.splitlines() if line.startswith("vllm:")]

    # Eight tokens for all, so that what is said and left out takes as many.
    requests = [Request(r.request_id, r.prompt, 8, ignore_eos=True) for r in asked(64)]
    sick = Seen(f"{defect}=1", requests, 32)
    assert sick.outcomes == {Outcome.COMPLETED: 64}
    assert counted(sick) == counted(Seen("", requests, 32))


def test_defects_together_end_every_request_and_are_counted() -> None:
    every = ",".join(f"{name}=0.3" for name in DEFECTS if name not in ("idle-stall", "clock-skew"))
    for defect in (every, "slow-client=0.1,decode-restarted=1", f"{every},idle-stall=0.05"):
        seen = Seen(f"{defect}&prefix_caching=1", asked(96, hay="word " * 900), 48)
        assert len(seen.records) == 96
        refused = seen.outcomes[Outcome.FAILED_HTTP]
        assert seen.metrics.total("vllm:request_success") == 96 - refused
        assert (
            seen.metrics.total("vllm:num_requests_running")
            == seen.metrics.total("vllm:num_requests_waiting")
            == 0
        )
    cut = Seen("slow-client=0.1,decode-restarted=1", forced(16), 8)
    assert cut.outcomes == {Outcome.TRUNCATED: 16}, "the severed connection reaches a slow client too"


def test_a_slow_client_reads_in_order() -> None:
    """Its lag shrinks as others leave; what was handed out before is read before."""
    with open_target("twin:mi325x?defect=slow-client=1", seed=3) as opened:
        wave = [Request(f"n{n}", f"Write about {n}.", 40 + 40 * (n == 0)) for n in range(16)]
        records = opened.run(run_wave, wave, concurrency=16, timeout_s=400, stall_s=1.7)
    with open_target("twin:mi325x", seed=3) as opened:
        clean = opened.run(run_wave, wave, concurrency=16, timeout_s=400)
    texts = {record.request_id: record.text for record in clean}
    assert all(texts[r.request_id].startswith(r.text) for r in records)


def test_a_cache_that_is_on_and_warm_counts_a_prompt_once() -> None:
    seen = Seen("warm-prefix-cache&prefix_caching=1", asked(8, hay="word " * 3000), 4)
    assert seen.metrics.total("vllm:prefix_cache_queries") == sum(r.prompt_tokens or 0 for r in seen.records)
    assert seen.metrics.total("vllm:prefix_cache_hits") == sum(r.cached_tokens or 0 for r in seen.records)


def test_names_and_rates_are_checked() -> None:
    assert canonical("preamble, kv-write-race=0.50") == "kv-write-race=0.5,preamble=1"
    for bad in ("nothing", "preamble=2", "preamble=x", "preamble=-1", "preamble=nan"):
        with pytest.raises(UsageError):
            platform("mi325x").with_overrides({"defect": bad})
    assert Core(platform("mi325x").with_overrides({"defect": "preamble=0"}), 0).defects is None


def test_the_same_requests_are_struck_every_time() -> None:
    one, two = (Seen("in-stream-error=0.3", forced(40), c) for c in (4, 16))
    bad = [[r.request_id for r in seen.records if r.outcome is not Outcome.COMPLETED] for seen in (one, two)]
    assert bad[0] == bad[1] != []


def test_a_write_race_needs_concurrency_and_a_missing_barrier() -> None:
    race = Seen("kv-write-race", asked(80), 8)
    assert 15 <= race.hits <= 45  # 3 of 8 on average
    assert race.leaks == 0 and race.outcomes == {Outcome.COMPLETED: 80}
    assert Seen("kv-write-race=1", asked(10), 1).hits == 10
    fenced = Seen("kv-write-race&readback=fence", asked(80), 8)
    single = Seen("kv-write-race&readback=single", asked(80), 8)
    assert race.hits < fenced.hits == single.hits < 80


def test_recycled_state_builds_up_leaks_and_heals() -> None:
    target = "twin:mi325x?defect=state-recycle=1"
    with open_target(target, seed=1) as opened:
        waves = [
            opened.run(run_wave, _renamed(asked(32), wave), concurrency=32, wave=str(wave))
            for wave in range(4)
        ]
        alone = opened.run(run_wave, _renamed(asked(1), 9), concurrency=1)
        after = opened.run(run_wave, _renamed(asked(8), 10), concurrency=8)
    good = [sum(_right(record) for record in wave) for wave in waves]
    assert good[0] > good[-1] and good[-1] == 0
    assert all("ABC-" in record.text for record in waves[-1])
    assert _right(alone[0]) and sum(map(_right, after)) == 8


def _renamed(requests: Sequence[Request], wave: int) -> list[Request]:
    return [
        Request(f"w{wave}-{r.request_id}", r.prompt, r.max_tokens, ignore_eos=r.ignore_eos) for r in requests
    ]


def _right(record: RequestRecord) -> bool:
    return f"ABC-{1000 + int(record.request_id.rpartition('r')[2])}" in record.text


def _after_a_kill(defect: str, killed: int, then: int) -> tuple[Counter[Outcome], Counter[Outcome], float]:
    """Hard-kill a wave, then one request at a time, then a wave: outcomes of both, expired writes."""
    with open_target(f"twin:mi325x?defect={defect}", seed=3) as opened:
        # Clients give up while the first prompts are computed and handed over.
        wave = [Request(f"k{n}", "word " * 900 + str(n), 200) for n in range(killed)]
        gone = opened.run(run_wave, wave, concurrency=killed, timeout_s=1.2)
        assert all(record.outcome is not Outcome.COMPLETED for record in gone)
        one = opened.run(run_wave, forced(4), concurrency=1, timeout_s=400, wave="one")
        many = opened.run(run_wave, forced(16), concurrency=then, timeout_s=400, wave="many")
        expired = parse_metrics(opened.run(lambda t: t.fetch("/metrics")).text).total(EXPIRED)
    assert expired is not None
    return Counter(r.outcome for r in one), Counter(r.outcome for r in many), expired


def test_a_killed_wave_wedges_the_fabric() -> None:
    one, many, expired = _after_a_kill("fabric-wedged", 32, 8)
    assert one == {Outcome.COMPLETED: 4}
    assert many == {Outcome.TIMEOUT: 16}
    assert expired >= 16
    one, many, expired = _after_a_kill("fabric-wedged=0.3", 32, 8)
    assert one == {Outcome.COMPLETED: 4} and 1 <= many[Outcome.TIMEOUT] <= 10
    assert many[Outcome.COMPLETED] + many[Outcome.TIMEOUT] == 16


def test_only_a_killed_wave_wedges_the_fabric() -> None:
    drained = Seen("fabric-wedged", forced(64), 32)
    assert drained.outcomes == {Outcome.COMPLETED: 64} and drained.metrics.total(EXPIRED) == 0
    # A single client that goes away during its transfer leaves the fabric alone.
    _, many, expired = _after_a_kill("fabric-wedged", 1, 8)
    assert many == {Outcome.COMPLETED: 16} and expired == 0
    # So does a wave killed while all of it queues, and one whose requests all decode.
    for when in (10**5, 10**10):
        core = Core(platform("mi325x").with_overrides({"defect": "fabric-wedged"}), 0)
        flights = [core.submit(1000, 500) for _ in range(8)]
        core.advance(when)
        for flight in flights:
            core.cancel(flight)
        assert core.defects is not None and not core.defects.wedged


def test_a_write_that_never_arrives_expires_in_the_log_and_leaks_nothing() -> None:
    core = Core(platform("mi325x").with_overrides({"defect": "fabric-wedged"}), 0)
    for flight in [core.submit(1000, 500) for _ in range(8)]:
        core.advance(1_500_000_000)
        assert flight.state == HOLD
        core.cancel(flight)
    assert core.defects is not None and core.defects.wedged
    start = core.now_ns
    flights = [core.submit(10, 5) for _ in range(2)]
    core.advance(start + 50 * 10**9)
    assert not core.log and core.queued() == (0, 0) and core.running == 0
    core.advance(start + 70 * 10**9)
    assert [line.split(" expired")[1] for line in core.log] == [
        " after 60.0s (remote blocks never arrived), marking done"
    ] * 2
    assert sum(core.expired) == 2 and all(not pool.used for pool in core.prefill.pools)
    for flight in flights:
        core.cancel(flight)
    assert all(not pool.used for pool in core.decode.pools)


def test_missing_peers_answer_without_context() -> None:
    seen = Seen("missing-peers", asked(64), 8)
    assert seen.hits == 8
    assert all("I do not" in r.text for r in seen.records if "ABC" not in r.text)


def test_coalesced_events_are_fewer_than_tokens() -> None:
    seen = Seen("coalesced-events", forced(20), 4)
    tokens = sum(record.completion_tokens or 0 for record in seen.records)
    assert tokens == 20 * 40 and 0.35 * tokens < sum(r.events for r in seen.records) < 0.65 * tokens
    clean = Seen("", forced(20), 4)
    assert [r.text for r in clean.records] == [r.text for r in seen.records]


def test_an_error_in_the_stream_follows_http_200() -> None:
    seen = Seen("in-stream-error=0.5", forced(40), 8)
    bad = [record for record in seen.records if record.outcome is Outcome.FAILED_IN_STREAM]
    assert 10 <= len(bad) <= 30
    assert all(r.http_status == 200 and r.finish_reason is None and "EngineCore" in str(r.error) for r in bad)
    assert seen.metrics.total("vllm:request_success_total", finished_reason="abort") == len(bad)


def test_an_api_server_dies_under_load_only() -> None:
    assert Seen("prefill-api-dies=1", forced(8), 4).outcomes == {Outcome.COMPLETED: 8}
    seen = Seen("prefill-api-dies=0.2", forced(128), 64)
    bad = [record for record in seen.records if record.outcome is Outcome.FAILED_HTTP]
    assert bad and len(bad) < 128 and all(record.http_status == 500 for record in bad)


def test_a_stall_leaves_idle_gpus_until_clients_give_up() -> None:
    seen = Seen("idle-stall=0.2", forced(32), 8)
    assert seen.outcomes[Outcome.TIMEOUT] + seen.outcomes[Outcome.STALLED] >= 8
    assert Seen("idle-stall=1", forced(4), 1).outcomes == {Outcome.COMPLETED: 4}


def test_a_repeated_haystack_loses_needles_even_alone() -> None:
    repeated = "The grey fox sleeps under the old bridge. " * 40
    varied = " ".join(f"Number {index} sleeps under bridge {index * 7}." for index in range(40)) + " "
    assert 5 <= Seen("haystack-sensitivity", asked(40, hay=repeated), 1).hits <= 35
    assert Seen("haystack-sensitivity=1", asked(40, hay=varied), 8).hits == 40
    assert Seen("", asked(10, hay=repeated), 1).hits == 10


def test_a_warm_cache_shortens_first_tokens_and_says_so() -> None:
    cold, warm = (
        Seen("", asked(16, hay="word " * 3000), 8),
        Seen("warm-prefix-cache", asked(16, hay="word " * 3000), 8),
    )
    shares = [(r.cached_tokens or 0) / (r.prompt_tokens or 1) for r in warm.records]
    assert all(0.89 < share <= 0.9 for share in shares)
    assert all(record.cached_tokens is None for record in cold.records)
    assert ttft(warm.records) < ttft(cold.records)
    assert warm.metrics.total("vllm:prefix_cache_hits") == sum(r.cached_tokens or 0 for r in warm.records)


def test_tcp_is_slow_and_silent() -> None:
    rail, tcp = Seen("", forced(64), 32), Seen("tcp-fallback", forced(64), 32)
    assert tcp.outcomes == {Outcome.COMPLETED: 64}
    assert ttft(tcp.records) > ttft(rail.records) + 0.2
    assert tcp.mean("vllm:moriio_xfer_time_seconds") == pytest.approx(
        50 * rail.mean("vllm:moriio_xfer_time_seconds"), rel=1e-3
    )


def test_a_slow_client_sees_later_than_the_server_says() -> None:
    seen, clean = Seen("slow-client=0.1", forced(32), 16), Seen("", forced(32), 16)
    assert ttft(seen.records) > ttft(clean.records) + 0.5
    assert seen.mean(METRIC_TTFT) < ttft(seen.records) - 0.5
    assert clean.mean(METRIC_TTFT) == pytest.approx(ttft(clean.records), abs=1e-6)


def test_skewed_clocks_show_in_the_servers_metrics() -> None:
    seen = Seen("clock-skew=0.5", forced(16), 8)
    assert seen.mean(METRIC_TTFT) == pytest.approx(ttft(seen.records) + 0.5, abs=1e-6)


def test_a_decode_pool_restarted_alone_drops_connections() -> None:
    seen = Seen("decode-restarted", forced(40), 1)
    assert 8 <= seen.outcomes[Outcome.TRUNCATED] <= 32
    assert seen.metrics.total("vllm:moriio_num_failed_transfers") == seen.outcomes[Outcome.TRUNCATED]


def test_a_preamble_eats_a_short_cap_in_chat_only() -> None:
    assert Seen("preamble", asked(10, chat=True, tokens=32), 2).hits == 0
    assert Seen("preamble", asked(10, chat=True, tokens=200), 2).hits == 10
    assert Seen("preamble", asked(10, tokens=32), 2).hits == 10
