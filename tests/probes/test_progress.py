"""What a person sees while a ladder runs."""

from __future__ import annotations

import io

import pytest

from k3repro.errors import InvalidRun
from k3repro.probes import Bar, Lines, Rung, choose
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.plan import whole
from k3repro.probes.progress import sparkline

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


def test_ctrl_c_three_times_finishes_drains_and_aborts() -> None:
    notes: list[str] = []

    class Notes(Lines):
        def note(self, text: str) -> None:
            notes.append(text)

    interrupt = Interrupt(Notes(io.StringIO()))
    interrupt.check("con=4")
    interrupt._flying = RUNGS[3]
    interrupt._handle(2, None)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            interrupt._handle(2, None)
    assert notes[0].startswith("stopping after this wave: 4 requests of con=4 in flight")
    assert len(notes) == 2 and "Ctrl-C again aborts it" in notes[1]
    with pytest.raises(InvalidRun, match="before con=8: stopped as asked"):
        interrupt.check("con=8")
