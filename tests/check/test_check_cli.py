"""`k3repro audit check`: exit codes, JSON, SARIF, the annotated copy, explanation, suppression, folders."""

from __future__ import annotations

import json
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from k3repro.cli import main

GOOD = "TPOT fell from 40 ms to 22 ms, a 45% reduction.\n"
BAD = "TPOT fell from 40 ms to 22 ms, a 55% reduction.\n"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["audit", "check", *map(str, arguments)])
    return int(stopped.value.code or 0)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path, "good.md", GOOD)) == 0
    assert run(write(tmp_path, "bad.md", BAD)) == 1
    empty = write(tmp_path, "empty.md", "Nothing here.\n")
    assert run(empty) == 4
    assert run(empty, "--nothing-ok") == 0
    assert run(tmp_path / "missing.md") == 2
    assert run(write(tmp_path, "a.xyz", "")) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_folder_and_its_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "good.md", GOOD)
    write(tmp_path, "bad.html", f"<html><body><p>{BAD}</p></body></html>")
    write(tmp_path, ".hidden.md", BAD)
    assert run(tmp_path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert [Path(f["path"]).name for f in found["files"]] == ["bad.html", "good.md"]
    (relation,) = found["files"][0]["relations"]
    assert relation["verdict"] == "differs" and relation["would_hold"] == "45%"
    assert relation["claim"]["text"] == "55%" and [n["text"] for n in relation["inputs"]] == [
        "40 ms",
        "22 ms",
    ]


def test_a_suppression_needs_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    post = write(tmp_path, "post.md", BAD)
    run(post, "--json")
    name = json.loads(capsys.readouterr().out)["files"][0]["relations"][0]["id"]
    write(tmp_path, "post.md", f"{BAD}\n<!-- k3check: ignore {name} -->\n")
    assert run(post) == 1
    write(tmp_path, "post.md", f"{BAD}\n<!-- k3check: ignore {name} quoted from another paper -->\n")
    assert run(post) == 0
    assert "quoted from another paper" in capsys.readouterr().out
    write(tmp_path, "post.md", BAD)
    assert run(post, "--suppress", write(tmp_path, "known.txt", f"k3check: ignore {name} known\n")) == 0


def test_explanation_sarif_and_annotated_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    post = write(tmp_path, "post.md", f"# Title\n\n{BAD}")
    assert run(post, "--sarif", tmp_path / "out.sarif", "--html", tmp_path / "out.html", "--json") == 1
    relation = json.loads(capsys.readouterr().out)["files"][0]["relations"][0]
    result = json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}
    assert len(result["relatedLocations"]) == 2
    page = (tmp_path / "out.html").read_text()
    assert page.count("<mark class='differs'") == 3 and relation["id"] in page
    run(post, "--explain", relation["id"])
    said = capsys.readouterr().out
    assert "40 ms" in said and "Precondition" in said and "would hold: 45%" in said
    assert run(post, "--explain", "from-to-000000") == 2


def test_quiet_says_nothing_of_clean_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(tmp_path, "good.md", GOOD), write(tmp_path, "bad.md", BAD)
    assert run(good, "--quiet") == 0 and not capsys.readouterr().out
    assert run(good, bad, "--quiet") == 1
    said = capsys.readouterr().out
    assert "good.md" not in said and "bad.md:1: DIFFERS" in said


def test_a_folder_with_an_unreadable_file_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "bad.md", BAD)
    (tmp_path / "broken.pdf").write_bytes(b"no PDF")
    assert run(tmp_path) == 2
    captured = capsys.readouterr()
    assert "DIFFERS" in captured.out and "broken.pdf" in captured.err


def test_a_page_is_downloaded_with_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "bad.html", f"<html><body><p>{BAD}</p></body></html>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert run("--url", f"{address}/bad.html") == 1
        assert "DIFFERS" in capsys.readouterr().out
        assert run("--url", f"{address}/missing.html") == 2
        server.shutdown()


def test_an_address_needs_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("https://example.org/post.html") == 2
    assert "--url" in capsys.readouterr().err


def test_a_ledger_starts_with_what_was_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "| Config | tok/s | Speedup |\n|---|---|---|\n| base | 1,210 | 1.0x |\n| new | 2,401 | 1.98x |\n"
    post = write(tmp_path, "post.md", f"# Title\n\n{GOOD}\n{table}")
    ledger = tmp_path / "post.toml"
    with pytest.raises(SystemExit) as stopped:
        main(["audit", "extract", str(post), "--relations", "--to", str(ledger)])
        raise SystemExit(0)
    assert not stopped.value.code
    text = ledger.read_text(encoding="utf-8")
    assert text.count(", from = [") == 2
    with pytest.raises(SystemExit):
        main(["audit", "claims", str(ledger), "--source", str(post), "--no-artifacts", "--json"])
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert sum(claim["verdict"] == "supported" for claim in claims) >= 2
