"""One probe run against one target: waves in, committed rows out, resumable after every rung."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from k3repro.client import Request, RequestRecord, SelfTest
from k3repro.errors import InvalidRun
from k3repro.probes import attend, checks
from k3repro.probes.attend import Headroom, Observer
from k3repro.probes.identity import Identity
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.plan import Rung, calibration, calibration_words, canary
from k3repro.probes.progress import Progress
from k3repro.probes.prompts import GENERATOR, Sizing, filler, tag, words_digest
from k3repro.store import Run

Build = Callable[[str, int], str]
Wave = Callable[[Any, Callable[[RequestRecord], None]], Coroutine[Any, Any, list[RequestRecord]]]
Rows = Mapping[str, Sequence[Mapping[str, Any]]]
_TIMES = ("intended_ns", "sent_ns", "first_token_ns", "last_token_ns", "done_ns")


def plain_prompt(seed: str, words: int) -> str:
    """Filler and nothing else; the seed stands first, so that no two prompts share a prefix."""
    return f"{tag(seed)} {' '.join(filler(seed, words))}"


class Session:
    """What a procedure works with: `rung` sends one wave and commits it, `requests` builds prompts to size.

    In virtual time a resumed run sends committed waves again (the simulation must reach the same state)
    and insists on the same rows; on the wall clock they are skipped and times go on after them.
    """

    def __init__(
        self,
        target: Any,
        run: Run,
        progress: Progress,
        interrupt: Interrupt,
        *,
        seed: int,
        keep_text: bool = False,
        selftest: SelfTest | None = None,
        timed: bool = True,
        identity: Identity | None = None,
    ) -> None:
        self.target = target
        self.run = run
        self.virtual = target.clock == "virtual"
        # A wall-clock run must not meet its own prompts in a prefix cache when it is repeated.
        self.nonce = "" if self.virtual else run.run_id
        self.seed = seed
        # Forced output says nothing; dropping it keeps an artifact of a thousand requests small.
        self.keep_text = keep_text
        self.sizing = Sizing(0.0, 1.0)
        self.progress = progress
        self._interrupt = interrupt
        self._selftest = selftest
        # A late client spoils times; a needle that came late is the same needle.
        self._timed = timed
        self._identity = identity
        self._position = 0
        self._generator = GENERATOR
        self._offset = (
            0 if self.virtual else max((row["done_ns"] or 0 for row in run.rows("requests")), default=0)
        )

    def prompt_seed(self, request_id: str) -> str:
        """The seed of one prompt: run seed, nonce and request id."""
        return "/".join(filter(None, (str(self.seed), self.nonce, request_id)))

    def calibrate(self, build: Build = plain_prompt, generator: str = GENERATOR) -> None:
        """Learn from two requests how many tokens a word costs here, and record how prompts are built."""
        self._generator = generator
        rung = calibration()
        sizes = calibration_words(self.target.max_model_len)
        ids = [f"{rung.name}-{words}" for words in sizes]
        prompts = [build(self.prompt_seed(name), words) for name, words in zip(ids, sizes, strict=True)]
        requests = [Request(name, prompt, 1) for name, prompt in zip(ids, prompts, strict=True)]
        # One after the other, and quick: how long the gap between them is says nothing here.
        rows = self.rung(rung, requests, extra=self._construction, allow=frozenset({"concurrency"}))
        self.sizing = self._sizing(rows)

    def canary(self, when: str) -> None:
        """Concurrency 1, then 4; before a ladder a failure ends the run, after it makes the verdict."""
        for rung in canary(when):
            self.rung(rung, self.requests(rung))
            row = self._summary(rung.name)  # not the newest: a resumed run has rungs beyond its canary
            if when != "after" and not row["valid"]:
                reason = f"the canary failed: {'; '.join(row['reasons'])}"
                self.run.quarantine(reason)
                raise InvalidRun(
                    reason, where=rung.name, fix="Relaunch the serve; a degraded serve is not measured."
                )

    def check(self, rung: Rung) -> bool:
        """Send a canary wave outside a ladder; whether it was valid."""
        self.rung(rung, self.requests(rung))
        return bool(self._summary(rung.name)["valid"])

    def ladder(
        self, rungs: Sequence[Rung], extra: Callable[[Rung, list[dict[str, Any]]], Rows] | None = None
    ) -> None:
        """A whole ladder of plain prompts: calibrate, canary, the rungs, canary.

        `extra` makes the rows of the probe's own tables out of a rung and the rows of its requests.
        """
        self.calibrate()
        self.canary("before")
        for rung in rungs:
            self.rung(rung, self.requests(rung), extra=partial(extra, rung) if extra else None)
        self.canary("after")

    def recover(self) -> None:
        """After an aborted wave the canary decides whether the serve still works."""
        if self.run.serve.get("suspect") and not self.virtual:
            self.canary(f"recovered-{len(self.run.waves)}")
            self.run.serve["suspect"] = ""

    def requests(self, rung: Rung, build: Build = plain_prompt) -> list[Request]:
        """The requests of a rung: each its own prompt of the rung's size."""
        words = self.sizing.words(rung.prompt_tokens)
        ids = [f"{rung.name}-{index:04d}" for index in range(rung.requests)]
        prompts = [build(self.prompt_seed(request_id), words) for request_id in ids]
        return [
            Request(request_id, prompt, rung.output_tokens, ignore_eos=rung.forced)
            for request_id, prompt in zip(ids, prompts, strict=True)
        ]

    def rung(
        self,
        rung: Rung,
        requests: Sequence[Request],
        extra: Callable[[list[dict[str, Any]]], Rows] | None = None,
        observer: Observer | None = None,
        allow: frozenset[str] = frozenset(),
        wave: Wave | None = None,
    ) -> list[dict[str, Any]]:
        """Send one wave and commit its rows in one piece; returns the rows of its requests.

        `observer` looks at the engine's metrics meanwhile. `allow` names checks (`checks.Finding`) whose
        failure is a result of this rung and not a fault of the instrument. `wave` sends instead of a plain
        wave of `requests`; how many it sent is known afterwards only.

        Raises:
            InvalidRun: somebody asked to stop, or a resumed twin run does not give the committed rows again.
        """
        position, self._position = self._position, self._position + 1
        committed = [row for row in self.run.rows("requests") if row["wave"] == rung.name]
        if rung.name in self.run.waves and not self.virtual:
            self.progress.finished(self._summary(rung.name), resumed=True)
            return committed
        self._interrupt.check(rung.name)
        self.progress.started(rung)
        headroom = None if self.virtual else Headroom()
        rows = self._send(rung, requests, headroom, observer, wave)
        if wave is not None:
            rung = replace(rung, requests=max(1, len(rows)))
        if rung.name in self.run.waves:
            self._same(rung, rows, committed)
        else:
            summary = self._summarise(rung, position, rows, headroom, allow)
            self.run.commit(
                rung.name, {"requests": rows, "rungs": [summary], **(extra(rows) if extra else {})}
            )
        self.progress.finished(self._summary(rung.name))
        return rows

    def verdict(self, extra: Sequence[str] = ()) -> dict[str, Any]:
        """The verdict over all rungs so far."""
        return checks.verdict(self.run.rows("rungs"), extra)

    def _send(
        self,
        rung: Rung,
        requests: Sequence[Request],
        headroom: Headroom | None,
        observer: Observer | None,
        wave: Wave | None,
    ) -> list[dict[str, Any]]:
        records: list[RequestRecord] = []
        with self._interrupt.wave(rung, self.run) as flight:
            if wave is not None:
                records = self.target.run(wave, flight.note)
            else:
                records = self.target.run(
                    attend.attended_wave, requests, headroom=headroom, observer=observer,
                    on_record=flight.note, concurrency=rung.concurrency, timeout_s=rung.timeout_s,
                    stall_s=rung.stall_s, wave=rung.name,
                )  # fmt: skip
        if not records and wave is None:  # drained by a first Ctrl-C, and nothing was left to send
            order = {request.request_id: index for index, request in enumerate(requests)}
            records = sorted(flight.records, key=lambda record: order[record.request_id])
        if self._identity is not None:
            self._identity.look(self.target, rung.name, records)
        return [self._row(rung, record) for record in records]

    def _row(self, rung: Rung, record: Any) -> dict[str, Any]:
        row: dict[str, Any] = record.as_row() | {"wave": rung.name}
        if not self.keep_text and row["outcome"] == "completed":
            row["text"] = ""
        for name in _TIMES:
            row[name] = None if row[name] is None else row[name] + self._offset
        return row

    def _summarise(
        self,
        rung: Rung,
        position: int,
        rows: Sequence[Mapping[str, Any]],
        headroom: Headroom | None,
        allow: frozenset[str],
    ) -> dict[str, Any]:
        records = [RequestRecord(**row) for row in rows]
        share = self._selftest.share(records) if self._selftest else None
        return checks.summarise(
            rung, position, records, client_share=share, headroom=headroom, allow=allow, timed=self._timed
        )

    def _summary(self, rung: str) -> dict[str, Any]:
        return next(row for row in self.run.rows("rungs") if row["rung"] == rung)

    def _same(
        self, rung: Rung, rows: Sequence[Mapping[str, Any]], committed: Sequence[Mapping[str, Any]]
    ) -> None:
        if [dict(row) for row in rows] == [dict(row) for row in committed]:
            return
        self.run.quarantine(f"resumed run gave other rows in {rung.name}")
        fix = "The run is set aside under .quarantine; start it again."
        raise InvalidRun("a resumed twin run gave other rows than it had committed", where=rung.name, fix=fix)

    def _sizing(self, rows: Sequence[Mapping[str, Any]]) -> Sizing:
        counts = [row["prompt_tokens"] for row in sorted(rows, key=lambda row: row["request_id"])]
        short, long = calibration_words(self.target.max_model_len)
        failed = [row for row in rows if row["outcome"] != "completed"]
        if failed:
            reason = f"the first requests failed: {failed[0]['outcome']}: {failed[0]['error']}"
            self.run.quarantine(reason)
            fix = "Ask it with curl; a wrong --model answers 404."
            raise InvalidRun(reason, where="calibration", fix=fix)
        if len(counts) != 2 or None in counts:
            reason = "the server does not report usage.prompt_tokens, so prompts cannot be sized"
            self.run.quarantine(reason)
            raise InvalidRun(
                reason, where="calibration", fix="Ask it with stream_options.include_usage and look."
            )
        return Sizing.from_counts((short, min(counts)), (long, max(counts)))

    def _construction(self, rows: Sequence[Mapping[str, Any]]) -> Rows:
        sizing = self._sizing(rows)
        row = {
            "purpose": "all prompts", "generator": self._generator, "seed": str(self.seed),
            "nonce": self.nonce,
            "words_sha256": words_digest(),
            "overhead_tokens": sizing.overhead, "tokens_per_word": sizing.per_word,
        }  # fmt: skip
        return {"construction": [row]}
