"""Other harnesses: run `aiperf` or the AgentX fork of it in an environment of its own, and read what it
recorded.

Both ship a package called aiperf, so they never share an environment with each other or with k3repro.
Their output goes into the tables of our own replay, so that the two can be compared on the same serve.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.client import open_target
from k3repro.errors import InputError, MachineError, MissingExtra, UsageError
from k3repro.probes.agentic.tables import CUT, REPLAY_TABLE, TURNS_TABLE, WARMUP, WINDOW, summarise
from k3repro.probes.serve_facts import serve_facts
from k3repro.store import Artifact, Header, Schema, Store

__all__ = ["Harness", "command", "drive", "ingest"]

NAME = "agentic-harness"
SCHEMA = Schema((TURNS_TABLE, REPLAY_TABLE))
_RECORDS, _SUMMARY = "profile_export.jsonl", "profile_export_aiperf.json"
_MILLI = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Harness:
    """A harness: its command and scenario inside an environment."""

    name: str
    program: str
    scenario: str


HARNESSES = {
    "aiperf": Harness("aiperf", "aiperf", "inferencex-agentx-mvp"),
    "agentx-harness": Harness("agentx-harness", "agentx", "agentx"),
}


def command(
    harness: str, *, environment: Path, url: str, model: str, corpus: Path, output: Path, concurrency: int,
    window_s: float = 900.0, warmup_s: float = 300.0, max_context: int = 0, tokenizer: str = "",
    seed: int = 42,
) -> list[str]:  # fmt: skip
    """The command line of a replay with that harness, as the published recipe runs it.

    Raises:
        UsageError: no such harness.
    """
    if harness not in HARNESSES:
        raise UsageError(f"no harness {harness!r}", fix=f"Known: {', '.join(sorted(HARNESSES))}.")
    chosen = HARNESSES[harness]
    line = [str(environment / "bin" / chosen.program), "profile", "--scenario", chosen.scenario]
    line += ["--url", url, "--endpoint", "/v1/chat/completions", "--endpoint-type", "chat", "--streaming"]
    line += ["--model", model, "--concurrency", str(concurrency), "--benchmark-duration", f"{window_s:g}"]
    line += ["--random-seed", str(seed), "--failed-request-threshold", "0.10"]
    line += [
        "--agentic-cache-warmup-duration",
        f"{warmup_s:g}",
        "--use-server-token-count",
        "--no-gpu-telemetry",
    ]
    line += [
        "--custom-dataset-type",
        "weka_trace",
        "--input-file",
        str(corpus),
        "--output-artifact-dir",
        str(output),
    ]
    line += ["--max-context-length", str(max_context)] if max_context else []
    line += ["--tokenizer", tokenizer] if tokenizer else []
    return line + (["--unsafe-override"] if window_s < 900 else [])


def drive(line: Sequence[str], *, timeout_s: float) -> None:
    """Run a command of `command`; its own output stays with it.

    Raises:
        MissingExtra: the environment has no such program.
        MachineError: it failed or took too long; the end of what it said is in the error.
    """
    if not Path(line[0]).exists():
        fix = "Give it an environment of its own: python -m venv DIR && DIR/bin/pip install aiperf."
        raise MissingExtra(
            f"not available here: {Path(line[0]).name} in {Path(line[0]).parent.parent.name}", fix=fix
        )
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise MachineError(f"no end within {timeout_s:g} s", where=Path(line[0]).name) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise MachineError(f"exit code {done.returncode}: {' '.join(said)[:300]}", where=Path(line[0]).name)


def ingest(
    folder: Path, *, store: Store, corpus: str, target: str = "", model: str | None = None, name_as: str = "",
    hardware: str = "",
) -> Artifact:  # fmt: skip
    """Read the records of a harness into the replay tables and seal them.

    `target` asks the serve who it is, which is the evidence for its tier; without it the artifact is
    unverified and `name_as` has to say what was served. `name_as` and `hardware` are those of `run_probe`.

    Raises:
        UsageError: neither a target nor a name.
        InputError: a file is missing or not of this format; which, and where.
        TargetError: `target` does not answer.
    """
    summary = _summary(folder / _SUMMARY)
    turns = _turns(folder / _RECORDS)
    row = _replay(turns, summary, corpus)
    if not target and not name_as:
        raise UsageError("nothing says what was served", fix="Give --target URL, or --name NAME.")
    serve: dict[str, Any] = {"platform": hardware} if hardware else {}
    subject = name_as
    if target:
        with open_target(target, model=model, name=name_as, hardware=hardware) as opened:
            serve, subject = serve_facts(opened) | serve, opened.subject
    parameters = {"harness": row["harness"], "corpus": corpus, "concurrency": row["concurrency"]}
    header = Header(NAME, subject, "probe", f"{__name__}:ingest", parameters, serve=serve, clock="wall")
    reasons = _reasons(summary, row)
    with store.begin(header, SCHEMA) as run:
        run.serve.update(serve)
        run.commit("records", {"turns": turns, "replay": [row]})
        return run.seal({"ok": not reasons, "reasons": reasons})


def _summary(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            "the harness left no summary", where=path.name, fix="Give its --output-artifact-dir."
        ) from None
    except (ValueError, RecursionError):
        raise InputError("not JSON", where=path.name) from None
    if not isinstance(value, dict) or "benchmark_duration" not in value:
        raise InputError("not a summary of aiperf", where=path.name)
    return value


def _turns(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        raise InputError(
            "the harness left no records", where=path.name, fix="Run it with a per-record export."
        )
    found = []
    with path.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                found.append(_record(line, f"{path.name}, line {number}"))
    if not found:
        raise InputError("no records", where=path.name)
    origin = min(row["sent_s"] for row in found)
    return [row | {"sent_s": row["sent_s"] - origin, "done_s": row["done_s"] - origin} for row in found]


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
        about, metrics = document["metadata"], document.get("metrics") or {}
        sent, done = about["request_start_ns"], about["request_end_ns"]
        identity, session, turn = about["x_request_id"], about["conversation_id"], about["turn_index"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"not a record of aiperf: {error}", where=where) from None
    if type(sent) is not int or type(done) is not int or type(turn) is not int:
        raise InputError("times and turns are whole numbers", where=where)
    cancelled, failed = bool(about.get("was_cancelled")), document.get("error")
    # A session cut at the end of the window is no wire error; the harness counts both as errors.
    outcome = "cancelled" if cancelled else "error" if failed else "completed"
    warm = about.get("benchmark_phase") == "warmup"
    return {
        "request_id": str(identity), "session": str(session), "turn": turn, "lane": None,
        "phase": WARMUP if warm else CUT if cancelled else WINDOW, "delay_s": None,
        "isl": _count(metrics, "input_sequence_length", where) or 0,
        "osl": _count(metrics, "output_sequence_length", where) or 0, "reusable": None,
        "sent_s": sent / 1e9, "done_s": done / 1e9, "ttft_s": _seconds(metrics, "time_to_first_token", where),
        "itl_s": _seconds(metrics, "inter_token_latency", where),
        "prompt_tokens": _count(metrics, "usage_prompt_tokens", where),
        "completion_tokens": _count(metrics, "usage_completion_tokens", where),
        "cached_tokens": _count(metrics, "usage_prompt_cache_read_tokens", where), "outcome": outcome,
    }  # fmt: skip


def _metric(metrics: Mapping[str, Any], name: str, where: str) -> tuple[float, str] | None:
    entry = metrics.get(name)
    if entry is None:
        return None
    value = entry.get("value") if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError(f"{name} has no number", where=where)
    return float(value), str(entry.get("unit", ""))


def _seconds(metrics: Mapping[str, Any], name: str, where: str) -> float | None:
    """A time in seconds, by the unit that stands beside it; units are never assumed."""
    found = _metric(metrics, name, where)
    if found is None:
        return None
    if found[1] not in _MILLI:
        raise InputError(f"{name} is in {found[1]!r}, not a known unit of time", where=where)
    return found[0] * _MILLI[found[1]]


def _count(metrics: Mapping[str, Any], name: str, where: str) -> int | None:
    found = _metric(metrics, name, where)
    return None if found is None else int(found[0])


def _replay(turns: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], corpus: str) -> dict[str, Any]:
    window = _window_s(summary)
    measured = [row for row in turns if row["phase"] != WARMUP]
    begin = min((row["sent_s"] for row in measured), default=max(row["done_s"] for row in turns))
    sessions = {row["session"] for row in turns}
    asked = _asked(summary)
    return summarise(
        turns, window_s=window, warmup_s=begin, harness=f"aiperf {summary.get('aiperf_version', 'unknown')}",
        corpus=corpus, concurrency=asked, sessions=len(sessions),
        sessions_started=len(sessions), clones=None, dropped="unknown",
    )  # fmt: skip


def _window_s(summary: Mapping[str, Any]) -> float:
    duration = summary["benchmark_duration"]
    value = _metric({"d": {"value": duration.get("avg"), "unit": "s"}}, "d", _SUMMARY) if duration else None
    if value is None or value[0] <= 0:
        raise InputError("benchmark_duration has no number", where=_SUMMARY)
    return value[0]


def _asked(summary: Mapping[str, Any]) -> int | None:
    """Lanes that the harness was asked for; None when its summary does not say."""
    phases = (summary.get("input_config") or {}).get("phases")
    first = phases[0] if isinstance(phases, list) and phases and isinstance(phases[0], dict) else {}
    value = first.get("concurrency")
    return value if type(value) is int else None


def _reasons(summary: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    reasons = [
        f"harness: {text}" for text in (summary.get("metadata") or {}).get("submission_invalid_reasons") or []
    ]
    if summary.get("was_cancelled"):
        reasons.append("the harness was cancelled")
    if summary.get("is_complete") is False:
        reasons.append(f"the harness did not complete: {summary.get('incomplete_reason')}")
    if not row["completed"]:
        reasons.append("no turn completed inside the window")
    if row["errors"]:
        reasons.append(f"{row['errors']} turns of the window failed")
    return reasons
