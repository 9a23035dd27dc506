"""The notebook's calculator gives the library's answers, and a pipeline run gets none."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from k3repro.capacity import Sla, n_max
from k3repro.capacity.derive import engine_of
from k3repro.capacity.widgets import calculator, sizing_of, sizing_text
from k3repro.spec import load_layout, load_model

LAYOUTS = ["k3-2p2d-mi300x", "k3-2p2d-mi325x"]
ASKED: dict[str, Any] = {"context": 200_000, "concurrency": 32, "reply": 256, "price_per_node_hour": 16.0}


def test_the_text_is_the_librarys_answer() -> None:
    sla = Sla(200_000, 32, 256)
    fits, answer = sizing_of("kimi-k3", LAYOUTS[0], sla, [])
    launch = load_layout(LAYOUTS[0])
    alone = n_max(load_model("kimi-k3"), engine_of(launch), launch.kv_pool_bytes, 200_000,
                  max_num_seqs=launch.max_num_seqs, max_model_len=launch.max_model_len)  # fmt: skip
    assert fits == alone
    text = sizing_text("kimi-k3", LAYOUTS[0], sla, [])
    assert f"{alone.effective} requests fit" in text
    assert f"feasible {answer.feasible}" in text
    assert all(reason in text for reason in answer.reasons)


def test_a_pipeline_run_gets_no_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K3REPRO_RECEIPTS", "somewhere")
    assert calculator("kimi-k3", LAYOUTS, [], **ASKED) is None


def test_moving_a_control_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    monkeypatch.delenv("K3REPRO_RECEIPTS", raising=False)
    live = calculator("kimi-k3", LAYOUTS, [], **ASKED)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        live.f(**_values(live, context=100_000))
        live.f(**_values(live, reply=300_000))
    assert "56 requests fit" in said.getvalue()
    assert "leaves no prompt" in said.getvalue()


NAMES = ("layout", "context", "concurrency", "reply", "latency_s", "price")


def _values(live: Any, **moved: Any) -> dict[str, Any]:
    return {name: control.value for name, control in zip(NAMES, live.children, strict=False)} | moved
