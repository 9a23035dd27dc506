"""`k3repro capacity`: the JSON that the docs bind, the bars of the issue, and answers that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from k3repro.cli import main, root
from k3repro.serve.lines import print_kv_lines


def run(*arguments: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(root, ["capacity", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("mi300x", [320, 104, 56, 32, 16, 8]), ("mi325x", [1000, 328, 184, 104, 64, 40])],
)
def test_nmax_bars(platform: str, expected: list[int]) -> None:
    contexts = ("1280", "50K", "100K", "200K", "300K", "512K")
    answers = [run("nmax", "--platform", platform, "--context", context) for context in contexts]
    assert [answer["n_max"]["block"] for answer in answers] == expected
    for answer in answers:
        fits = answer["n_max"]
        assert fits["effective"] == min(fits["block"], fits["slots"])
        assert {"binds", "next", "knob", "max_request_tokens"} <= set(answer)


def test_prefix_caching_is_shown_both_ways() -> None:
    off = run("nmax", "--platform", "mi300x", "--context", "200K")
    on = run("nmax", "--platform", "mi300x", "--context", "200K", "--prefix-caching")
    assert (off["n_max"]["block"], on["n_max"]["block"]) == (32, 24)
    assert off["with_prefix_caching_changed"]["n_max_block"] == 24
    assert on["with_prefix_caching_changed"]["n_max_block"] == 32


def test_grid_and_its_discriminating_rungs() -> None:
    rungs = run("grid", "--platform", "mi300x", "--discriminate")["rungs"]
    found = {rung["context"]: (rung["low"], rung["high"]) for rung in rungs if rung["reachable"]}
    assert found == {100_000: (57, 73), 200_000: (33, 36), 300_000: (17, 24), 512_000: (9, 14)}
    assert len(run("grid", "--platform", "mi325x")["rows"]) == 6


def test_wall_inside_and_outside_its_fit() -> None:
    assert run("wall", "--platform", "mi300x", "--osl", "256")["wall_s"] == pytest.approx(22.312)
    for outside in (
        ("--osl", "300"),
        ("--osl", "256", "--isl", "200K"),
        ("--osl", "256", "--concurrency", "32"),
    ):
        answer = run("wall", "--platform", "mi300x", *outside, code=1)
        assert answer["wall_s"] is None and answer["outside"]
    assert run("wall", "--platform", "mi325x", "--budget", "10")["osl"] == 122


def test_the_trap_of_the_worked_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """200K x 32: the printed law reads 22.3 s for it; simulated, a wave takes the printed half hour."""
    monkeypatch.setenv("K3REPRO_ARTIFACTS", str(tmp_path))
    ask = (
        "size",
        "--platform",
        "mi300x",
        "--isl",
        "200K",
        "--osl",
        "64",
        "--users",
        "32",
        "--requests",
        "32",
    )
    (answer,) = run(*ask, "--e2e", "31min@p99", code=1)["platforms"]
    # An empty folder answers as a full one does: the errors ship with the package.
    assert answer["nodes"] == 4 and answer["verdict"] == "possible" and answer["tier"] == "simulated"
    assert 25 * 60 < answer["choice"]["e2e_s_p99"] < 31 * 60 and answer["fidelity"]["e2e"]["held_out_cells"]
    (late,) = run(*ask, "--e2e", "30", code=1)["platforms"]
    assert late["verdict"] == "no" and "alone" in late["reasons"][0]


def test_both_platforms_are_answered_and_a_price_bills_them() -> None:
    ask = ("size", "--isl", "1024", "--osl", "64", "--users", "8", "--price", "mi300x=16,mi325x=20")
    answer = run(*ask, "--max-nodes", "8")
    assert [one["platform"] for one in answer["platforms"]] == ["mi300x", "mi325x"]
    assert answer["cheapest"] == "mi300x"
    assert [one["choice"]["cost"]["usd_per_hour"] for one in answer["platforms"]] == [64.0, 80.0]


def test_cost_keeps_output_and_total_apart() -> None:
    answer = run("cost", "--nodes", "1", "--price", "16", "--out-rate", "3673", "--total-rate", "15944")
    assert round(answer["usd_per_million_total"], 2) == 0.28
    assert round(answer["usd_per_million_output"], 2) == 1.21


def test_startup_lines_are_explained(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_text("\n".join(print_kv_lines(916_875, 900_000, 1.01875, version=(0, 27, 0))))
    assert run("startup", "--platform", "mi300x", str(log))["ranks"][0]["blocks"] == [163]
    log.write_text("GPU KV cache size: 916,876 tokens\n")
    assert not run("startup", "--platform", "mi300x", str(log), code=1)["ranks"][0]["agrees"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("nmax --platform mi300x --context 0", "at least one token"),
        ("nmax --platform mi300x --context -5", "not a token count"),
        ("nmax --platform mi300x --context 1K --pool 1MB", "holds no request"),
        ("nmax --platform mi300x --context 1K --tp 5", "does not divide"),
        ("nmax --platform h100 --nodes 2 --tp 8 --context 1K", "leaves no room"),
        ("wall --platform mi355x --osl 9", "no wall law"),
        ("wall --platform mi300x", "either --osl or --budget"),
        ("wall --platform mi300x --budget -1", "positive"),
        ("size --users 0", "At least one user"),
        ("size --users 1000000000", "beyond what is simulated"),
        ("size --isl -5 --users 1", "no length"),
        ("size --users 1 --ttft -3", "no limit on a time"),
        ("size --users 1 --price nan", "price"),
        ("size --users 1 --rate 2", "not both"),
        ("size --users 1 --platform h900", "no platform"),
        ("size --users 1 --trace nowhere.csv", "no such corpus"),
        ("cost --nodes 0 --price 3 --out-rate 5", "positive"),
        ("cost --nodes 1 --price 3", "throughput"),
        ("cost --nodes 1 --price 3 --out-rate 5 --total-rate 4", "fewer"),
        ("grid --platform mi300x --contexts 1K,huge", "not a token count"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: str, words: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["capacity", *arguments.split()])
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and words in message and "Traceback" not in message
    assert message.count("\n") == 1


def test_every_command_explains_itself_with_an_example() -> None:
    for name in ("nmax", "grid", "wall", "size", "cost", "startup", "calibrate"):
        shown = CliRunner().invoke(root, ["capacity", name, "--help"]).output
        assert f"k3repro capacity {name}" in shown and "--json" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        "nmax --platform mi300x --context 200K --pool 1e400",
        "nmax --platform mi300x --context 1e300",
        "nmax --platform mi300x --context 200K --tp 3",
        "nmax --platform mi300x --context 200K --tp 64",
        "size --users 32 --e2e 1e300",
        "size --users 32 --price 1e308",
        "size --users 99999999999999999999999",
        "size --isl 1e300 --users 1",
        "wall --platform mi300x --budget inf",
        "wall --platform mi300x --budget 0.001",
        "wall --platform mi300x --osl 256 --concurrency 0",
        "wall --platform mi300x --osl 256 --isl 0",
        "cost --nodes 4 --price 1e308 --out-rate 1",
        "cost --nodes 4 --price 16 --out-rate 1e-300",
        "cost --nodes 4 --price 16 --out-rate inf",
        f"cost --nodes {10**400} --price 16 --out-rate 1",
    ],
)
def test_absurd_numbers_are_refused_in_a_sentence(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["capacity", *arguments.split()])
    assert stopped.value.code == 2 and "Traceback" not in capsys.readouterr().err


def test_a_model_with_windows_only_has_no_pool_law(tmp_path: Path) -> None:
    config = {
        "model_type": "mistral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 32000,
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    ask = ("--model", str(path), "--platform", "mi325x", "--pool", "40GB")
    # 40e9 // (32 layers x 16 tokens x 4096 B) = 19073 blocks; (4095 + 8192) / 16 + 1 = 769; 8 lanes
    fits = run("nmax", *ask, "--context", "32K")["n_max"]
    assert fits["block"] == 8 * (19072 // 769) and fits["pool"] is None
    assert run("grid", *ask, "--discriminate")["rungs"] == []


def test_a_hand_off_in_bytes_and_in_time() -> None:
    answer = run("handoff", "--platform", "mi325x", "--prompt", "64K", "--link", "400")
    assert (answer["bytes"], answer["state_pages"], answer["blocks"]) == (1_189_969_920, 72, 12)
    assert answer["seconds"] == pytest.approx(1_189_969_920 / 50e9)
