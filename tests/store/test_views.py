"""The catalog's views over all probes: which run stands, and which quantiles a sample carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k3repro.client import REQUESTS_TABLE
from k3repro.probes.lateness import late_first_tokens
from k3repro.probes.tables import RungRow
from k3repro.store import Catalog, Header, Schema, Store

SCHEMA = Schema((REQUESTS_TABLE, RungRow.TABLE))


def seal(store: Store, requests: int, *, ok: bool = True, subject: str = "twin:mi300x", **rung: Any) -> str:
    """A run with one rung of `requests` requests whose first tokens come after 1, 2, 3, ... seconds."""
    header = Header(
        "latency", subject, "probe", "k3repro.probes.latency:procedure", {"n": requests, "ok": ok}
    )
    run = store.begin(header, SCHEMA)
    row = {
        "rung": "w", "position": 0, "measured": True, "concurrency": 4, "requests": requests, "valid": True,
        "completed": requests, "prompt_tokens": 100, "completion_tokens": 50, "wall_s": 5.0, "reasons": [],
        "prompt_tokens_target": 10, "output_tokens_target": 5, **rung,
    }  # fmt: skip
    zero: dict[str, Any] = {
        column.name: {"VARCHAR": "", "BOOL": False}.get(column.type, 0)
        for column in REQUESTS_TABLE.columns
        if not column.nullable
    }
    times = [
        zero | {
            "request_id": f"r{i:04}", "wave": "w", "outcome": "completed", "completion_tokens": 5,
            "first_token_ns": (i + 1) * 10**9, "done_ns": (i + 3) * 10**9,
        }
        for i in range(requests)
    ]  # fmt: skip
    run.commit("w", {"rungs": [row], "requests": times})
    return str(run.seal({"ok": ok}).seal)


def query(store: Store, sql: str) -> list[dict[str, Any]]:
    return Catalog.of(store.artifacts()).query(sql)


def test_of_several_runs_the_sound_one_with_the_most_requests_stands(tmp_path: Path) -> None:
    store = Store(tmp_path)
    seal(store, 3)
    best = seal(store, 12)
    seal(store, 30, ok=False)
    (row,) = query(store, "SELECT * FROM best_run")
    assert (row["probe"], row["seal"], row["platform"], row["setting"]) == (
        "latency",
        best,
        "MI300X",
        "as shipped",
    )


def test_a_rung_that_is_not_valid_counts_nowhere(tmp_path: Path) -> None:
    store = Store(tmp_path)
    seal(store, 12, valid=False)
    for view in ("best_run", "rung_rate", "rung_latency"):
        assert query(store, f"SELECT * FROM {view}") == []


LEAST = [(9, ""), (10, "50"), (49, "50"), (50, "50 90"), (499, "50 90"), (500, "50 90 99")]


@pytest.mark.parametrize("n, carried", LEAST)
def test_a_quantile_stands_only_where_the_sample_carries_it(tmp_path: Path, n: int, carried: str) -> None:
    store = Store(tmp_path)
    seal(store, n)
    (row,) = query(store, "SELECT * FROM rung_latency")
    assert " ".join(q for q in ("50", "90", "99") if row[f"ttft_p{q}_s"] is not None) == carried
    assert row["n_requests"] == n and row["tpot_ms"] == pytest.approx(500)
    assert row["ttft_p50_s"] is None or row["ttft_p50_s"] == pytest.approx((n + 1) / 2)


@pytest.mark.parametrize(("lag_s", "known"), [(None, True), (0.3, True), (0.4, False)])
def test_first_tokens_stand_only_where_the_client_was_in_time(
    tmp_path: Path, lag_s: float | None, known: bool
) -> None:
    """Their median is 6.5 s, of which a twentieth may be missed; the view and the probes have one rule."""
    store = Store(tmp_path)
    seal(store, 12, client_lag_s=lag_s)
    (row,) = query(store, "SELECT * FROM rung_latency")
    assert (row["ttft_p50_s"] is not None) is known and row["tpot_ms"] == pytest.approx(500)
    (artifact,) = store.artifacts()
    late = late_first_tokens(artifact.rows("rungs"), artifact.rows("requests"))
    assert len(query(store, "SELECT * FROM late_rungs")) == len(late) == (0 if known else 1)


def test_rates_are_tokens_over_time(tmp_path: Path) -> None:
    store = Store(tmp_path)
    seal(store, 12)
    (row,) = query(store, "SELECT * FROM rung_rate")
    assert (row["isl"], row["osl"], row["out_tokens_per_s"], row["total_tokens_per_s"]) == (10, 5, 10.0, 30.0)


def test_the_views_are_empty_where_no_probe_ran(tmp_path: Path) -> None:
    assert query(Store(tmp_path), "SELECT * FROM rung_latency") == []
