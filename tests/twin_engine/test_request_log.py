"""`k3repro twin serve --log`: the twin's own account of each request."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from k3repro.cli.twin import twin
from k3repro.client import Request, open_target, run_wave

_PROGRAM = "import sys; from k3repro.cli import main; main(sys.argv[1:])"


def test_the_log_has_every_request_with_the_time_of_every_token(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    options = ["--port", "0", "--time-scale", "20", "--log", str(log), "--json"]
    command = [sys.executable, "-c", _PROGRAM, "twin", "serve", "--platform", "mi325x", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        with open_target(url) as target:
            wave = [Request(f"r{n}", f"{n} " * 20, 8 + n) for n in range(4)]
            records = target.run(run_wave, wave, concurrency=4, timeout_s=30, stall_s=30, wave="w")
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(line["output_tokens"] for line in lines) == [8, 9, 10, 11]
    assert sorted(r.completion_tokens or 0 for r in records) == [8, 9, 10, 11]
    for line in lines:
        times = [line["arrival_ns"], line["prefill_start_ns"], *line["token_ns"]]
        assert times == sorted(times) and len(line["token_ns"]) == line["output_tokens"]
        assert line["reason"] == "length"
        late = [sent - due for sent, due in zip(line["sent_ns"], line["token_ns"], strict=True)]
        assert min(late) >= 0 and len(late) == line["output_tokens"]


def test_a_log_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    options = ["serve", "--platform", "mi325x", "--log", str(tmp_path / "no" / "log")]
    error = CliRunner().invoke(twin, options).exception
    assert getattr(error, "exit_code", 0) == 3 and "No such file" in str(error)
