"""Published levels beside the node: what is simulated, what is not, and what no level may be said to be."""

from __future__ import annotations

import pytest

from k3repro.errors import InputError
from k3repro.publications import read_publication, transcribe
from k3repro.store import Artifact, Store
from k3repro.studies.node.fidelity import fidelity_of_levels, seal_level_fidelity
from k3repro.twin import platform
from k3repro.twin.single import SingleNode
from k3repro.twin.single_level import simulate_level

PUBLICATION = """
[publication]
id = "tiny"
document = "a page"
date = "2026-01-01"
sha256 = "{sha}"

[[table]]
artifact = "published-levels"
name = "series"
locator = "page"
doc = "Ladders."
key = ["series"]
columns = [
  {{ name = "series", printed_as = "a" }}, {{ name = "model", printed_as = "a" }},
  {{ name = "layout", printed_as = "a" }}, {{ name = "mode", printed_as = "a" }},
  {{ name = "isl", type = "INT64", printed_as = "a" }}, {{ name = "osl", type = "INT64", printed_as = "a" }},
  {{ name = "requests", type = "INT64", printed_as = "a" }}, {{ name = "tokens", printed_as = "a" }},
  {{ name = "gpus", type = "INT64", printed_as = "a" }},
]
text = ["model", "layout", "mode", "tokens"]
rows = [
  ["llama/multi", "llama-3.1-405b", "llama-3.1-405b-1n-mi325x", "multi-run", "200", "20", "40", "text", "8"],
  ["llama/fine", "llama-3.1-405b", "llama-3.1-405b-1n-mi325x", "fine", "200", "20", "no", "text", "8"],
  ["qwen/stress", "qwen3-vl-235b", "qwen3-vl-235b-1n-mi325x", "stress", "200", "20", "no", "text+image", "8"],
  ["llama/long", "llama-3.1-405b", "llama-3.1-405b-1n-mi325x", "stress", "no", "20", "no", "text", "8"],
]

[[table]]
artifact = "published-levels"
name = "levels"
locator = "page"
doc = "Levels."
key = ["series", "concurrency"]
columns = [
  {{ name = "series", printed_as = "a" }}, {{ name = "concurrency", type = "INT64", printed_as = "a" }},
  {{ name = "total_tokens_per_s", printed_as = "a" }}, {{ name = "output_tokens_per_s", printed_as = "a" }},
  {{ name = "p99_s", printed_as = "a" }},
]
rows = [
  ["llama/multi", "4", "500", "no", "2.0"],
  ["llama/multi", "100", "900", "no", "4.0"],
  ["llama/fine", "50", "990,000", "1,000", "no"],
  ["qwen/stress", "50", "9,000", "no", "no"],
  ["llama/long", "5", "9,000", "no", "no"],
]
""".format(sha="0" * 64)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("levels")
    (folder / "tiny.toml").write_text(PUBLICATION, encoding="utf-8")
    store = Store(folder / "artifacts")
    transcribe(read_publication(folder / "tiny.toml"), store)
    return seal_level_fidelity(store, "tiny")


def cells(judged: Artifact, series: str, **keys: object) -> list[dict[str, object]]:
    rows = [row for row in judged.rows("cells") if row["series"] == series]
    return [row for row in rows if all(row[key] == value for key, value in keys.items())]


def test_every_cell_is_there_with_its_error_or_its_reason(judged: Artifact) -> None:
    rows = judged.rows("cells")
    assert len({(row["series"], row["concurrency"], row["quantity"]) for row in rows}) == 8
    for row in rows:
        assert (row["simulated"] is None) == (row["why"] is not None)
        if row["relation"] == "in-sample" or row["simulated"] is None:
            assert row["error"] is None
        else:
            assert row["error"] == row["simulated"] / row["printed"] - 1


def test_only_the_level_behind_the_factor_is_in_sample(judged: Artifact) -> None:
    (factor,) = judged.rows("factors")
    assert (factor["series"], factor["concurrency"]) == ("llama/multi", 4) and 0 < factor["factor"] < 1
    relations = {
        (row["variant"], row["series"], row["concurrency"]): row["relation"] for row in judged.rows("cells")
    }
    assert {key for key, value in relations.items() if value == "in-sample"} == {
        ("one factor", "llama/multi", 4)
    }
    assert all(value == "independent" for key, value in relations.items() if key[0] != "one factor")
    (row,) = cells(judged, "llama/multi", concurrency=4, variant="one factor", quantity="total_tokens_per_s")
    assert row["simulated"] == pytest.approx(500, rel=2e-2)  # it fits its own cell, which shows nothing


def test_no_more_in_flight_than_were_sent(judged: Artifact) -> None:
    (row,) = cells(judged, "llama/multi", concurrency=100, variant="roofline", quantity="p99_s")
    assert (row["in_flight"], row["requests"], row["requests_printed"]) == (40, 40, True)
    (row,) = cells(judged, "llama/fine", concurrency=50, variant="roofline", quantity="output_tokens_per_s")
    assert (row["in_flight"], row["requests"], row["requests_printed"]) == (50, 50, False)


def test_a_rate_above_the_roofline_is_marked(judged: Artifact) -> None:
    (row,) = cells(judged, "llama/fine", variant="roofline", quantity="total_tokens_per_s")
    assert row["beyond"] is True and row["error"] < 0  # type: ignore[operator]
    (row,) = cells(judged, "llama/fine", variant="roofline", quantity="output_tokens_per_s")
    assert row["beyond"] is False


def test_what_cannot_run_here_says_why(judged: Artifact) -> None:
    (image,) = cells(judged, "qwen/stress")
    assert "not runnable here" in str(image["why"]) and "image" in str(image["why"])
    (long,) = cells(judged, "llama/long")
    assert long["why"] == "the length of the prompt is not printed"
    with pytest.raises(InputError, match="not one"):
        fidelity_of_levels([])


def test_a_closed_loop_keeps_its_users_busy() -> None:
    node = platform("mi325x-1n/llama-3.1-405b")
    assert isinstance(node, SingleNode)
    node = node.with_overrides({"jitter_ppm": "0"})
    one, ten = (simulate_level(node, 8, requests, 300, 30) for requests in (8, 80))
    assert 9 < ten.wall_s / one.wall_s < 10.5
    assert len(ten.latencies_s) == 80 and ten.p99_s == max(ten.latencies_s)
    assert simulate_level(node, 8, 80, 300, 30, shared=True).wall_s < ten.wall_s
    with pytest.raises(InputError):
        simulate_level(node, 9, 8, 300, 30)
