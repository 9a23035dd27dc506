"""What a person sees while a ladder runs."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from k3repro.errors import InvalidRun
from k3repro.probes import Bar, Lines, Rung, choose
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.plan import whole
from k3repro.probes.progress import Live, Pace, sparkline

RUNGS = whole([Rung("con=4", 4, 4, 100, 10)])


def row(rung: Rung, **changes: object) -> dict[str, object]:
    return {
        "rung": rung.name, "requests": rung.requests,
        "completed": rung.requests, "wall_s": 1.5, "valid": True,
        "output_tokens_per_s": 26.0, "reasons": [], "measured": rung.measured,
    } | changes  # fmt: skip


@pytest.mark.parametrize("kind", [Lines, Bar])
def test_every_rung_is_a_line_and_the_verdict_comes_last(kind: type[Lines]) -> None:
    stream = io.StringIO()
    progress = kind(stream)
    progress.begin("envelope", RUNGS)
    for rung in RUNGS:
        progress.started(rung)
        progress.finished(row(rung), resumed=rung.name == "calibration")
    progress.end({"ok": False, "reasons": ["con=4: [bold]no[/bold]"]})
    lines = stream.getvalue().splitlines()
    assert sum("4/4" in line for line in lines) == 3 and any("(resumed)" in line for line in lines)
    assert lines[-1] == "NOT valid: con=4: [bold]no[/bold]", "text of a server is never markup"


def test_an_invalid_rung_says_why_and_a_rung_without_times_does_not_break() -> None:
    stream = io.StringIO()
    Lines(stream).finished(
        row(RUNGS[0], valid=False, reasons=["lost", "slow"], wall_s=None, output_tokens_per_s=None)
    )
    assert "lost; slow" in stream.getvalue()


def test_a_pipe_gets_lines_and_a_chart_stays_in_bounds() -> None:
    assert type(choose(io.StringIO())) is Lines
    assert sparkline([0, 4, 8]) == "▁▅█" and sparkline([]) == "" and sparkline([0.0]) == "▁"


def test_a_notebook_shows_a_table_a_chart_and_an_eta_while_it_runs_and_keeps_no_times() -> None:
    shown: list[str] = []
    now = [0.0]
    live = Live(shown.append, clock=lambda: now[0])
    live.begin("envelope", RUNGS)
    now[0] = 33.0
    total = sum(rung.requests for rung in RUNGS)
    for rung in RUNGS:
        live.started(rung)
        live.finished(row(rung))
    assert any("now: con=4" in text for text in shown)
    partial = next(text for text in shown if f"{total - 5} of {total} requests" in text)
    assert "tok/s █" in partial and "4/4" in partial and "0:00:33, ETA 0:00:15" in partial
    live.end({"ok": True, "reasons": []})
    assert shown[-1].endswith("valid") and "ETA" not in shown[-1] and "tok/s █" in shown[-1]
    assert shown[-1].count("4/4") == 3


def test_before_anything_ended_the_eta_is_unknown() -> None:
    assert Pace(7, lambda: 1.0).text() == "0 of 7 requests, 0:00:00, ETA unknown"


@pytest.mark.parametrize("kind", [Lines, Bar])
def test_a_run_that_broke_off_ends_without_a_verdict(kind: type[Lines]) -> None:
    stream = io.StringIO()
    progress = kind(stream)
    progress.begin("envelope", RUNGS)
    progress.end(None)
    assert "valid" not in stream.getvalue()


class Notes(Lines):
    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class FakeRun:
    def __init__(self) -> None:
        self.serve: dict[str, str] = {}
        self.waves: list[str] = []

    def commit(self, wave: str, rows: object) -> None:
        self.waves.append(wave)


def ended(sent: int, done: int, outcome: str = "completed") -> SimpleNamespace:
    return SimpleNamespace(sent_ns=sent * 10**9, done_ns=done * 10**9, outcome=outcome)


@pytest.mark.parametrize(
    ("answers", "presses", "suspect"),
    [([], 1, False), ([True], 2, True), ([False, True], 3, True), ([None, None], 3, True)],
)
def test_the_first_ctrl_c_drains_and_only_a_yes_aborts(
    answers: list[bool | None], presses: int, suspect: bool
) -> None:
    notes, run, left = Notes(), FakeRun(), iter(answers)
    interrupt = Interrupt(notes, ask=lambda question: next(left))
    interrupt.check("con=4")
    what = "aborted; the serve is suspect" if suspect else "con=4: stopped as asked"
    with pytest.raises(InvalidRun, match=what), interrupt.wave(RUNGS[3], run) as flight:  # type: ignore[arg-type]
        flight.note(ended(0, 7))
        stopped = False
        for _ in range(presses):
            try:
                interrupt._handle(2, None)
            except KeyboardInterrupt:
                stopped = True
        assert stopped
        raise KeyboardInterrupt
    assert bool(run.serve) is suspect
    first = "no new requests: 3 requests of con=4 in flight; expect about 7 s"
    assert notes.notes[0].startswith(first)
    assert presses == 1 or "unable to move state" in notes.notes[1]
    assert list(left) == []
    with pytest.raises(InvalidRun, match="before con=8: stopped as asked"):
        interrupt.check("con=8")


def test_a_drained_wave_that_had_been_sent_whole_counts() -> None:
    interrupt, run = Interrupt(Notes()), FakeRun()
    with interrupt.wave(RUNGS[3], run) as flight:  # type: ignore[arg-type]
        for _ in range(4):
            flight.note(ended(0, 3))
        with pytest.raises(KeyboardInterrupt):
            interrupt._handle(2, None)
        raise KeyboardInterrupt
    assert not run.serve
    with pytest.raises(InvalidRun):
        interrupt.check("con=8")


def test_a_drain_before_any_request_has_ended_says_what_it_does_not_know() -> None:
    notes = Notes()
    interrupt = Interrupt(notes)
    with pytest.raises(InvalidRun), interrupt.wave(RUNGS[3], FakeRun()):  # type: ignore[arg-type]
        interrupt._handle(2, None)
    assert "none has ended yet, so the drain may take up to" in notes.notes[0]
