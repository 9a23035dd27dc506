"""Metrics text, health and serve facts, on real vLLM names and on hostile input."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.serve import facts, health, parse_metrics

REAL = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 1.0
vllm:num_requests_running{engine="1",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 28162.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="512"} 1.0
process_start_time_seconds 1.79596293475e+09
"""


def test_sums_over_engines_and_wire_names() -> None:
    metrics = parse_metrics(REAL)
    assert metrics.unread == 0
    assert metrics.total("vllm:num_requests_running") == 3
    assert metrics.total("vllm:num_requests_running", engine="1") == 2
    assert metrics.total("vllm:prompt_tokens") == 28162
    assert metrics.total("vllm:not_there") is None
    assert metrics.labels("vllm:cache_config_info")["num_gpu_blocks"] == "512"


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=40))
def test_label_values_round_trip(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    (sample,) = parse_metrics(f'm{{a="{escaped}",b="x"}} 1').samples
    assert sample.labels == {"a": value, "b": "x"}


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parse_metrics(text)


def test_unreadable_lines_are_counted_and_nan_is_unknown_not_zero() -> None:
    metrics = parse_metrics('a 1\nwhat is this\nb{x=} q\nc NaN\nd{r="0"} 2\nd{r="1"} +Inf\n')
    assert metrics.unread == 2 and metrics.total("a") == 1
    assert metrics.total("c") is None and metrics.largest("c") is None
    assert metrics.total("d") is None and metrics.largest("d") == 2 and metrics.total("d", r="0") == 2


def test_a_busy_or_degraded_serve_is_not_healthy() -> None:
    assert not health(parse_metrics(REAL)).ok
    assert "2 waiting" in health(parse_metrics("vllm:num_requests_waiting 2")).reasons[0]
    expired = health(parse_metrics("vllm:moriio_num_kv_expired_reqs_total 3"))
    assert expired.reasons == ("3 requests whose remote blocks never arrived",)
    assert health(parse_metrics(""), None).reasons == ("/health does not answer",)


def test_unknown_stays_unknown() -> None:
    state = health(parse_metrics(""))
    assert state.ok and state.running is None and state.failed_transfers is None


def test_a_restart_is_another_serve_and_counters_are_not() -> None:
    models = json.dumps({"data": [{"id": "tiny", "max_model_len": 2048}]})
    answers = {"/version": '{"version":"0.32.0"}', "/v1/models": models, "/metrics": REAL, "/health": ""}
    real = facts(answers, evidence=[{"kind": "build_info", "value": "0.32.0"}], startup_lines=["ready"])
    assert [entry["kind"] for entry in real["evidence"]] == ["build_info", "startup_lines"]
    assert real["config"]["max_model_len"] == 2048 and real["config"]["engines"] == 2
    later = facts(answers | {"/metrics": REAL.replace("1.79596293475e+09", "1.8e+09")})
    assert later["id"] != real["id"], "a restarted engine is another serve"
    busy = facts(answers | {"/metrics": REAL.replace("28162.0", "99999.0")})
    assert busy["id"] == real["id"], "counters do not make another serve"
    assert facts(answers, seed=1)["id"] != real["id"]


@pytest.mark.parametrize("body", [None, "", "not json", "[]", '{"data": 3}', '{"data": [1]}'])
def test_hostile_answers_leave_facts_unknown(body: str | None) -> None:
    found = facts({"/version": body, "/v1/models": body, "/metrics": body, "/health": body})
    assert found["models"] == [] and found["evidence"] == []


@pytest.mark.parametrize(
    "line", ['a{x="b c"} 5', 'a{x="b c"} 5 1700000000000', 'a{x="b c"}\t5', ' a{x="b c"}  5 ']
)
def test_a_line_is_read_with_a_timestamp_or_without(line: str) -> None:
    [sample] = parse_metrics(line).samples
    assert (sample.name, dict(sample.labels), sample.value) == ("a", {"x": "b c"}, 5.0)
