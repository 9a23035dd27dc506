"""`k3repro serve`: a record from a bare URL, what nobody reports stays unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from k3repro.cli import main, root

LOG = """\
INFO nothing of interest, and a key sk-abcdefghijklmnopqrstuvwxyz012345
INFO [kv_cache_utils.py:1] GPU KV cache size: 916,875 tokens
INFO [kv_cache_utils.py:2] Maximum concurrency for 900,000 tokens per request: 1.02x
INFO Using AITER_MXFP4_BF16 for Kimi-K3 SiTU MXFP4 MoE.
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["serve", *arguments])


def test_a_serve_is_adopted_shown_and_its_unknowns_stay_unknown(tmp_path: Path) -> None:
    store = str(tmp_path / "artifacts")
    made = run("adopt", "--target", "twin:mi325x", "--artifacts", store, "--json")
    assert made.exit_code == 0, made.output
    record = json.loads(made.output)
    facts = record["facts"]
    assert record["tier"] == "simulated" and record["serve"].startswith("serve-")
    assert facts["model"] == {"value": "kimi-k3", "source": "/v1/models"}
    assert facts["started"]["value"] == facts["KV tokens printed"]["value"] == "unknown"
    shown = run("show", "--artifacts", store)
    assert record["serve"] in shown.output and "unknown" in shown.output
    (again,) = json.loads(run("show", "twin:mi325x", "--artifacts", store, "--json").output)
    assert again["seal"] == record["seal"]


def test_logs_enter_as_matched_lines_only(tmp_path: Path) -> None:
    log, store = tmp_path / "decode.log", tmp_path / "artifacts"
    log.write_text(LOG, encoding="utf-8")
    made = run("adopt", "--target", "twin:mi300x", "--log", str(log), "--artifacts", str(store), "--json")
    facts = json.loads(made.output)["facts"]
    assert facts["KV tokens printed"]["value"] == "916875" and facts["pools printed"]["value"] == "1"
    assert "AITER_MXFP4_BF16" in facts["expert kernel line"]["value"]
    assert json.loads(made.output)["tier"] == "simulated"  # the twin's mark outweighs any log
    (path,) = store.glob("serve-record/*.duckdb")
    assert b"sk-abcdef" not in path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["adopt"], 2, "no target"),
        (["adopt", "--target", "http://127.0.0.1:9"], 3, "127.0.0.1:9"),
        (["adopt", "--target", "twin:mi325x", "--log", "nowhere.log"], 2, "cannot be read"),
        (["show", "http://router:1"], 3, "no serve record"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["serve", *arguments, "--artifacts", str(tmp_path / "artifacts")])
    lines = capsys.readouterr().err.strip().splitlines()
    assert stopped.value.code == code and what in lines[-1] and "Traceback" not in "".join(lines)


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    assert "k3repro serve adopt" in run("show", "--artifacts", str(tmp_path / "artifacts")).output
