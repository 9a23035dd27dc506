"""self-consistency: clean servers pass, every mutant is flagged by the check that should flag it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from fake_pair import BLOCK_BYTES, BLOCK_TOKENS, STATE_BYTES, FakeEngine, serving
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError, UsageError
from k3repro.probes import compare_serves, estimate_probe, run_probe, self_consistency
from k3repro.probes._judgement import Limits, rule
from k3repro.probes._sequences import Answer, Parting, part, read
from k3repro.store import Artifact, Store

SMALL: dict[str, Any] = {"isl": 64, "osl": 8, "prompts": 4, "concurrency": (2, 4)}
INTEGERS = {"state_bytes": STATE_BYTES, "block_bytes": BLOCK_BYTES, "block_tokens": BLOCK_TOKENS}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from k3repro.probes import _handoff, _run, checks

    monkeypatch.setattr(_run, "instrument", lambda target: None)
    monkeypatch.setattr(_handoff, "_SETTLE_S", 0.0)
    # Client and server share this process and a busy machine: time is no subject of these tests.
    for name, limit in {"client_lag_s": 1e9, "delivered_concurrency": 0.0, "little": 1e9}.items():
        monkeypatch.setitem(checks.LIMITS, name, limit)


def probe(store: Store, engine: FakeEngine, **changes: Any) -> Artifact:
    with serving(engine) as url:
        return run_probe("self-consistency", target=url, store=store, **(SMALL | changes))


def paired(store: Store, *, prefill: str = "", decode: str = "", direct: str | None = None) -> Artifact:
    parked: dict[str, int] = {}
    first, second = FakeEngine(prefill, parked), FakeEngine(decode, parked)
    with ExitStack() as stack:
        urls = {
            "prefill": stack.enter_context(serving(first)),
            "decode": stack.enter_context(serving(second)),
        }
        if direct is not None:
            urls["direct"] = stack.enter_context(serving(FakeEngine(direct)))
        target = stack.enter_context(serving(FakeEngine(router=(first, second))))
        return run_probe("self-consistency", target=target, store=store, **SMALL, **urls, **INTEGERS)


def reasons(artifact: Artifact) -> str:
    assert not artifact.verdict["ok"]
    return " | ".join(artifact.verdict["reasons"])


def test_the_twin_is_consistent_and_compared_by_text(store: Store) -> None:
    found = run_probe("self-consistency", target="twin:mi325x", store=store, **SMALL)
    assert found.verdict["ok"], found.verdict["reasons"]
    assert found.tier == "simulated" and {row["logprobs"] for row in found.rows("sequences")} == {None}
    assert found.verdict["checks"]["concurrency=4"] == {
        "answers": 4, "different": 0, "broken": 0, "max_dlp": None, "max_margin": None,
    }  # fmt: skip
    plan = estimate_probe("self-consistency", **SMALL)
    assert plan["total"]["requests"] == len(found.rows("requests"))


def test_a_clean_engine_passes_with_tokens_and_margins(store: Store) -> None:
    found = probe(store, FakeEngine())
    assert found.verdict["ok"], found.verdict["reasons"]
    rows = found.rows("sequences")
    assert len(rows) == 4 * 6 and all(len(row["tokens"]) == len(row["margins"]) == 8 for row in rows)
    assert not found.rows("transfers") and found.tier == "unverified"


@pytest.mark.parametrize(
    ("defect", "wave", "says"),
    [
        ("keeps the state of a used slot", "reuse", "other tokens from 0"),
        ("mixes neighbours", "concurrency=4", "other tokens from 0"),
        ("moves the last bit", "repeat", "log-probabilities moved by 1e-06"),
        ("blind", "blind", "1 different answers"),
    ],
)
def test_a_defect_of_one_engine_is_flagged(store: Store, defect: str, wave: str, says: str) -> None:
    # An odd number of prompts, so that a request does not meet its slot in the same order again.
    found = reasons(probe(store, FakeEngine(defect), prompts=5))
    assert wave in found and says in found


def test_without_logprobs_a_wide_difference_cannot_be_excused(store: Store) -> None:
    found = probe(store, FakeEngine("mixes neighbours", logprobs=False), batch="near-tie")
    assert "no log-probabilities to judge that by" in reasons(found)


def test_a_clean_pair_passes_and_its_integers_add_up(store: Store) -> None:
    found = paired(store, direct="")
    assert found.verdict["ok"], found.verdict["reasons"]
    rows = {row["wave"]: row for row in found.rows("transfers")}
    assert set(rows) == {
        "reference",
        "repeat",
        "concurrency=2",
        "concurrency=4",
        "churn",
        "reuse",
        "swap-own",
        "swap",
    }
    assert all(row["transfers"] == 4 and row["bytes"] == row["expected_bytes"] > 0 for row in rows.values())
    swap = [row for row in found.rows("sequences") if row["kind"].startswith("swap")]
    assert [row["first_difference"] is None for row in swap] == [row["kind"] == "swap" for row in swap]


@pytest.mark.parametrize(
    ("defect", "says"),
    [
        ("ignores the hand-off", "swap: 4 of 4 break the rule"),
        ("takes another hand-off", "repeat: "),
        ("moves no bytes", "reference: 0 transfers and 0 bytes for 4 requests"),
        ("loses the state part", "bytes crossed, "),
    ],
)
def test_a_defect_of_the_hand_off_is_flagged(store: Store, defect: str, says: str) -> None:
    assert says in reasons(paired(store, decode=defect))


def test_routed_against_direct_is_judged_by_margin_not_by_equality(store: Store) -> None:
    tied = paired(store, decode="will flip at a tie", direct="flips at a tie")
    assert tied.verdict["ok"], tied.verdict["reasons"]
    assert tied.verdict["checks"]["direct"]["different"] == 4
    wide = reasons(paired(store, decode="will flip at a tie", direct="flips at a wide margin"))
    assert "direct: 4 of 4 break the rule" in wide and "no near tie: margin 1.5" in wide


def test_a_restart_is_two_serves_and_the_same_tokens(store: Store) -> None:
    one = probe(store, FakeEngine())
    other = probe(store, FakeEngine("blind", started=3.0))
    again = probe(store, FakeEngine(started=2.0))
    derived = store.derive(compare_serves, [one, again], subject="fake")
    assert all(row["ok"] for row in derived.rows("restart")) and len(derived.rows("restart")) == 4
    changed = store.derive(compare_serves, [one, other], subject="changed")
    assert not any(row["ok"] for row in changed.rows("restart"))
    with pytest.raises(InputError, match="two self-consistency runs"):
        store.derive(compare_serves, [one], subject="fake")


def test_bad_parameters_are_one_line() -> None:
    with pytest.raises(UsageError, match="no concurrency above"):
        estimate_probe("self-consistency", prompts=4, concurrency=(8,))
    with pytest.raises(UsageError, match="both engines"):
        estimate_probe("self-consistency", prefill="http://127.0.0.1:1")
    with pytest.raises(UsageError, match="batch is 'loose'"):
        estimate_probe("self-consistency", batch="loose")


TOKENS = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)


@given(TOKENS, TOKENS, st.floats(0, 2), st.floats(0, 1))
def test_a_parting_is_the_first_difference_and_symmetric(
    left: list[str], right: list[str], margin: float, shift: float
) -> None:
    one = Answer(tuple(left), tuple(-1.0 for _ in left), tuple(margin for _ in left))
    two = Answer(tuple(right), tuple(-1.0 - shift for _ in right), tuple(margin for _ in right))
    found = part(one, two)
    assert found == part(two, one)
    assert (found.first is None) == (left == right)
    if found.first is not None:
        assert left[: found.first] == right[: found.first]
    if found.first == 0:
        assert found.dlp == 0.0
    assert part(one, one).near_tie(0.0, 0.0)


@pytest.mark.parametrize(("dlp", "broken"), [(0.0, False), (4.5e-16, False), (1e-7, True)])
def test_the_last_digit_of_a_printed_double_is_no_difference(dlp: float, broken: bool) -> None:
    assert (rule("repeat", Parting(None, None, dlp), Limits()) is not None) == broken


def test_an_answer_without_a_choice_is_no_answer() -> None:
    with pytest.raises(ValueError, match="no choice"):
        read({"choices": []})


@pytest.mark.parametrize(("tokens", "state", "blocks"), [
    (256, 68_608, 1), (257, 68_608, 1), (258, 68_608, 2), (256, 0, 1), (257, 0, 2), (1, 68_608, 0),
])  # fmt: skip
def test_with_recurrent_state_the_last_prompt_token_does_not_cross(
    tokens: int, state: int, blocks: int
) -> None:
    """vLLM's NIXL hand-off of a hybrid: prefill stops one token early, so 257 tokens are one block of 256."""
    parameters = self_consistency.Parameters(state_bytes=state, block_bytes=1000, block_tokens=256)
    assert self_consistency._expected([{"prompt_tokens": tokens}], parameters) == state + 1000 * blocks


def test_engines_behind_a_router_vouch_for_it_and_make_the_serve(store: Store) -> None:
    parked: dict[str, int] = {}
    first, second = FakeEngine("", parked), FakeEngine("", parked)
    with ExitStack() as stack:
        engines = (stack.enter_context(serving(first)), stack.enter_context(serving(second)))
        router = stack.enter_context(serving(FakeEngine(router=(first, second))))

        def run(behind: tuple[str, ...]) -> Artifact:
            options: dict[str, Any] = {"target": router, "store": store, "behind": behind}
            return run_probe("self-consistency", **options, **SMALL)

        bare, vouched = run(()), run(engines)
        second.started += 1.0
        restarted = run(engines)
    assert set(vouched.serve["behind"]) == {"engine-1", "engine-2"} and "behind" not in bare.serve
    ids = [artifact.serve["id"] for artifact in (bare, vouched, restarted)]
    assert len(set(ids)) == 3, (
        "an engine that was started again makes another serve, whatever its router says"
    )
    assert all(artifact.verdict["serves"] == [artifact.serve["id"]] for artifact in (bare, vouched))
