"""One probe run against one target: waves in, committed rows out, resumable after every rung."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from k3repro.client import REQUESTS_TABLE, Request, RequestRecord, SelfTest, advice
from k3repro.errors import InvalidRun, TargetError
from k3repro.probes import checks, wave_monitor
from k3repro.probes.counting import counter_of
from k3repro.probes.identity import Identity
from k3repro.probes.interrupt import Interrupt
from k3repro.probes.plan import MORE_WORDS, Rung, calibration, calibration_words, canary, warm_up
from k3repro.probes.progress import Progress
from k3repro.probes.prompts import GENERATOR, filler, tag, words_digest
from k3repro.probes.sizing import Sizing
from k3repro.probes.tables import Construction
from k3repro.probes.wave_monitor import Headroom, Observer
from k3repro.store import Rows, Run
from k3repro.workload import Workload

Build = Callable[[str, int], str]
Wave = Callable[[Any, Callable[[RequestRecord], None]], Coroutine[Any, Any, list[RequestRecord]]]
# Columns in ns are moments since the run began: all of them move when a run is resumed.
_TIMES = tuple(column.name for column in REQUESTS_TABLE.columns if column.unit == "ns")


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
        tokenizer: str = "",
        natural: bool = False,
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
        self._tokenizer = tokenizer
        self._natural = natural
        self._asked: dict[str, checks.Asked] = {}
        self._position = 0
        self.stopped = ""
        self._generator = GENERATOR
        self._offset = (
            0 if self.virtual else max((row["done_ns"] or 0 for row in run.rows("requests")), default=0)
        )

    def prompt_seed(self, request_id: str) -> str:
        """The seed of one prompt: run seed, nonce and request id."""
        return "/".join(filter(None, (str(self.seed), self.nonce, request_id)))

    def calibrate(self, build: Build = plain_prompt, generator: str = GENERATOR) -> None:
        """Learn how many tokens a word costs here, and record how prompts are built.

        Two requests where the tokenizer is at hand (the server's /tokenize, or a file), which then counts
        every short prompt before it is sent; else more of them, because short prompts vary most.
        """
        self._generator = generator
        counter = counter_of(self.target, self._tokenizer)
        sizes: tuple[int, ...] = calibration_words(self.target.max_model_len)
        sizes += () if counter or self.virtual else tuple(w for w in MORE_WORDS if w < max(sizes))
        rung = calibration(len(sizes))
        ids = [f"{rung.name}-{number}-{words}" for number, words in enumerate(sizes)]
        prompts = [build(self.prompt_seed(name), words) for name, words in zip(ids, sizes, strict=True)]
        requests = [
            Request(name, prompt, 1, ignore_eos=not self._natural)
            for name, prompt in zip(ids, prompts, strict=True)
        ]

        def sized(rows: Sequence[Mapping[str, Any]]) -> Sizing:
            counts = self._counts(rows)
            found = Sizing.from_counts(*zip(sizes, counts, strict=True))
            return found.counted_by(counter, prompts, counts) if counter else found

        # One after the other, and quick: how long the gap between them is says nothing here.
        rows = self.rung(
            rung, requests, allow=frozenset({"concurrency"}),
            extra=lambda rows: self._construction(sized(rows)),
        )  # fmt: skip
        self.sizing = sized(rows)

    def canary(self, when: str) -> None:
        """Concurrency 1, then 4, on the wall clock after a warm-up. Before a ladder a failure ends the run
        (what was measured is kept), after it makes the verdict.

        Raises:
            InvalidRun: with what the requests said, and whether the serve is slow, refuses, or is broken.
        """
        if when != "after" and not self.virtual:
            warm = warm_up(when, not self._natural)
            self.rung(warm, self.requests(warm), allow=checks.ANY)
        for rung in canary(when, not self._natural):
            self.rung(rung, self.requests(rung), required=when != "after")

    def check(self, rung: Rung) -> bool:
        """Send a canary wave outside a ladder; whether it was valid."""
        self.rung(rung, self.requests(rung))
        return bool(self._summary(rung.name)["valid"])

    def recover(self) -> None:
        """After an aborted wave the canary decides whether the serve still works."""
        if self.run.serve.get("suspect") and not self.virtual:
            self.canary(f"recovered-{len(self.run.waves)}")
            self.run.serve["suspect"] = ""

    def prompts(self, rung: Rung, builds: Mapping[str, Callable[[int], str]]) -> dict[str, str]:
        """Prompts of the rung's size by request id; each function builds one from a number of words."""
        return self.sizing.prompts(builds, dict.fromkeys(builds, rung.prompt_tokens))

    def requests(self, rung: Rung, build: Build = plain_prompt) -> list[Request]:
        """The requests of a rung: each its own prompt of the rung's size, or as its workload says."""
        if self._skipped(rung):
            return []
        if rung.workload is not None:
            return self._of_workload(rung, rung.workload, build)
        ids = [f"{rung.name}-{index:04d}" for index in range(rung.requests)]
        prompts = self.prompts(rung, {name: partial(build, self.prompt_seed(name)) for name in ids})
        return [Request(name, prompts[name], rung.output_tokens, ignore_eos=rung.forced) for name in ids]

    def _of_workload(self, rung: Rung, workload: Workload, build: Build) -> list[Request]:
        """Requests of one wave of a workload; arrival times count from the start of the wave."""
        turns = [
            (session, turn)
            for session in workload.sessions(rung.requests, f"{self.seed}/{rung.level}")
            for turn in session.turns
        ][: rung.requests]
        ids = [f"{rung.name}-{index:04d}" for index in range(len(turns))]
        builds, targets = {}, {}
        for name, (session, turn) in zip(ids, turns, strict=True):
            if not turn.prompt:
                targets[name] = turn.isl
                builds[name] = partial(_prefixed, build, self.prompt_seed(name), self._prefix(session, turn))
        texts = self.sizing.prompts(builds, targets)
        requests = []
        for name, (session, turn) in zip(ids, turns, strict=True):
            self._asked[name] = checks.Asked(name, targets.get(name, 0), turn.osl)
            due = None if session.arrival_s is None else round(session.arrival_s * 1e9)
            prompt = texts.get(name, turn.prompt)
            requests.append(Request(name, prompt, turn.osl, ignore_eos=rung.forced, intended_ns=due))
        return requests

    def _prefix(self, session: Any, turn: Any) -> str:
        """The text that all sessions of a group begin with."""
        if not turn.prefix_tokens:
            return ""
        seed = self.prompt_seed(f"prefix-{session.group}")
        return plain_prompt(seed, self.sizing.words(turn.prefix_tokens)) + " "

    def _skipped(self, rung: Rung) -> bool:
        return rung.name in self.run.waves and not self.virtual

    def rung(
        self,
        rung: Rung,
        requests: Sequence[Request],
        extra: Callable[[list[dict[str, Any]]], Rows] | None = None,
        observer: Observer | None = None,
        allow: frozenset[str] = frozenset(),
        wave: Wave | None = None,
        required: bool = False,
    ) -> list[dict[str, Any]]:
        """Send one wave and commit its rows in one piece; returns the rows of its requests.

        `observer` looks at the engine's metrics meanwhile. `allow` names checks (`checks.Finding`) whose
        failure is a result of this rung and not a fault of the instrument. `wave` sends instead of a plain
        wave of `requests`; how many it sent is known afterwards only. A `required` rung that is not valid
        is not kept, and ends the run. Nothing is kept of a wave that nobody answered: it comes again.

        Raises:
            InvalidRun: somebody asked to stop, or a resumed twin run does not give the committed rows again.
            TargetError: nobody answered; what was measured is kept.
        """
        position, self._position = self._position, self._position + 1
        committed = [row for row in self.run.rows("requests") if row["wave"] == rung.name]
        if self._skipped(rung):
            self.progress.finished(self._summary(rung.name), resumed=True)
            return committed
        self._interrupt.check(rung.name)
        self.progress.started(rung)
        headroom = None if self.virtual else Headroom()
        rows = self._send(rung, requests, headroom, observer, wave)
        self._answered(rung, rows)
        if wave is not None:
            rung = replace(rung, requests=max(1, len(rows)))
        if rung.name in self.run.waves:
            self._same(rung, rows, committed)
        else:
            asked = [
                self._asked[request.request_id] for request in requests if request.request_id in self._asked
            ]
            summary = self._summarise(rung, position, rows, headroom, allow, asked)
            if required and not summary["valid"]:
                self._degraded(rung, summary, rows)
            self.run.commit(
                rung.name, {"requests": rows, "rungs": [summary], **(extra(rows) if extra else {})}
            )
        self.progress.finished(self._summary(rung.name))
        return rows

    def has(self, rung: Rung) -> bool:
        """Whether the rung was measured and kept, in this process or before a resume."""
        return rung.name in self.run.waves

    def verdict(self, extra: Sequence[str] = ()) -> dict[str, Any]:
        """The verdict over all rungs so far; `stopped` says why a ladder ended early, where it did."""
        stopped = {"stopped": self.stopped} if self.stopped else {}
        return checks.verdict(self.run.rows("rungs"), extra) | stopped

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
                    wave_monitor.monitored_wave, requests, headroom=headroom, observer=observer,
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
        asked: Sequence[checks.Asked],
    ) -> dict[str, Any]:
        records = [RequestRecord.of_row(row) for row in rows]
        share = self._selftest.share(records) if self._selftest else None
        return checks.summarise(
            rung, position, records, client_share=share, headroom=headroom, allow=allow, timed=self._timed,
            asked=asked,
        )  # fmt: skip

    def _answered(self, rung: Rung, rows: Sequence[Mapping[str, Any]]) -> None:
        """Stop where the serve is gone: every request failed, or some were cut and nobody is there."""
        if self.virtual or not rows:
            return
        cut = [row for row in rows if row["outcome"] in ("failed_http", "truncated") and _cut(row)]
        refused = [row for row in rows if row["outcome"] == "failed_http" and row["http_status"] != 400]
        if len(refused) < len(rows) and not (cut and self._silent()):
            return
        row = (cut or refused)[0]
        what = "nobody answered" if row["http_status"] is None or cut else "every request was refused"
        raise TargetError(
            f"{what}: {row['error']}", where=f"rung {rung.name}",
            fix=f"{advice(row['http_status'])} Finished rungs are kept; the same command goes on here.",
        )  # fmt: skip

    def _silent(self) -> bool:
        return self.target.run(lambda target: target.fetch("/v1/models")).status is None

    def _degraded(self, rung: Rung, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """A canary or calibration that failed: nothing is measured on such a serve.

        Raises:
            InvalidRun: always; slow, refused and broken have different remedies.
        """
        reason = f"the {rung.name.partition('-')[0]} failed: {'; '.join(row['reasons'])}"
        if not any(known["measured"] for known in self.run.rows("rungs")):
            self.run.quarantine(reason)
        status = next((r["http_status"] for r in rows if r["outcome"] == "failed_http"), None)
        fix = "Relaunch the serve; a degraded serve is not measured."
        if status is not None:
            fix = advice(status)
        elif any(r["outcome"] == "timeout" for r in rows):
            fix = f"It is slow, not broken: no end within {rung.timeout_s:.0f} s. Still compiling? Run again."
        elif any("ignore_eos" in (r["error"] or "") for r in rows):
            fix = "Run it again with --natural: replies end where the model ends them."
        raise InvalidRun(reason, where=rung.name, fix=fix)

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

    def _counts(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """What the server counted of the calibration prompts, in their order."""
        ordered = sorted(rows, key=lambda row: int(row["request_id"].split("-")[1]))
        counts: list[int | None] = [row["prompt_tokens"] for row in ordered]
        if failed := [row for row in rows if row["outcome"] != "completed"]:
            row = failed[0]
            reason = f"the first requests failed: {row['outcome']}: {row['error']}"
            self.run.quarantine(reason)
            fix = "Run it again with --natural: replies end where the model ends them."
            fix = fix if "ignore_eos" in (row["error"] or "") else advice(row["http_status"])
            raise InvalidRun(reason, where="calibration", fix=fix)
        if None in counts:
            reason = "the server does not report usage.prompt_tokens, so prompts cannot be sized"
            self.run.quarantine(reason)
            raise InvalidRun(
                reason, where="calibration", fix="Ask it with stream_options.include_usage and look."
            )
        return [count for count in counts if count is not None]

    def _construction(self, sizing: Sizing) -> Rows:
        row = Construction(
            purpose="all prompts", generator=self._generator, seed=str(self.seed), nonce=self.nonce,
            words_sha256=words_digest(), overhead_tokens=sizing.overhead, tokens_per_word=sizing.per_word,
            sized_by=sizing.counter.name if sizing.counter else None,
        )  # fmt: skip
        return {"construction": [row]}


def _cut(row: Mapping[str, Any]) -> bool:
    """Whether the connection was lost, or never came about."""
    return row["http_status"] is None or "connection closed" in (row["error"] or "")


def _prefixed(build: Build, seed: str, prefix: str, words: int) -> str:
    """A prompt that begins with a shared text; together they have `words` words."""
    return prefix + build(seed, max(1, words - prefix.count(" ")))
