"""What a ladder found, as every serving benchmark prints it: TTFT, TPOT, ITL, E2E, rates, goodput per step.

Times are of requests that ended `completed`, from send. A quantile is shown where enough requests stand
behind it (n(1-q) of at least five; the median from ten on); of fewer only the median of what there is, as
`median` with its n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.client import RequestRecord
from k3repro.errors import UsageError
from k3repro.probes.lateness import late_first_tokens
from k3repro.store import Artifact
from k3repro.units import format_decimal, order_free_sum, quantile, quantile_supported

__all__ = ["QUANTILES", "Slo", "level_results", "parse_slo", "results", "results_text"]

QUANTILES = (0.5, 0.9, 0.95, 0.99)
_METRICS = ("ttft", "first_answer", "tpot", "itl", "e2e")
_NAMES = {"ttft": "TTFT", "first_answer": "first answer", "tpot": "TPOT", "itl": "ITL", "e2e": "E2E"}
_SECONDS = {"ms": 1e-3, "s": 1.0, "us": 1e-6}


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds on ttft, tpot, itl, e2e or first_answer; a request is good when it keeps them all."""

    limits: tuple[tuple[str, float], ...]

    def good(self, record: RequestRecord) -> bool:
        """Whether the request completed within every limit; what was not observed is not kept."""
        if str(record.outcome) != "completed":
            return False
        times = {name: getattr(record, f"{name}_s") for name, _ in self.limits}
        return all(times[name] is not None and times[name] <= limit for name, limit in self.limits)

    def __str__(self) -> str:
        return ", ".join(f"{_NAMES[name]} {limit * 1000:g} ms" for name, limit in self.limits)


def parse_slo(text: str) -> Slo | None:
    """``ttft=2s,tpot=50ms``; None for an empty text.

    Raises:
        UsageError: another metric or unit.
    """
    limits = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        number = value.strip().rstrip("mus")
        scale = _SECONDS.get(value.strip()[len(number) :])
        try:
            limit = float(number) * (scale or 0.0)
        except ValueError:
            limit = 0.0
        if name.strip().lower() not in _METRICS or limit <= 0:
            fix = f"Write --slo ttft=2s,tpot=50ms; the times are {', '.join(_METRICS)}."
            raise UsageError(f"{part!r} is no limit on a time", where="--slo", fix=fix)
        limits.append((name.strip().lower(), limit))
    return Slo(tuple(limits)) if limits else None


def results(artifact: Artifact, slo: str = "") -> list[dict[str, Any]]:
    """One row per step of a sealed ladder (all its waves together), in the order they ran.

    `ttft_late_s`: by how much (p99, seconds) the client was too late for its TTFT; None where it was not.

    Raises:
        UsageError: `slo` is none (`parse_slo`).
    """
    tables = {table.name for table in artifact.schema.tables}
    if not {"rungs", "requests"} <= tables:
        return []
    rungs = sorted((row for row in artifact.rows("rungs") if row["measured"]), key=lambda r: r["position"])
    rows = artifact.rows("requests")
    by_wave: dict[str, list[RequestRecord]] = {}
    for row in rows:
        by_wave.setdefault(row["wave"], []).append(RequestRecord.of_row(row))
    levels: dict[str, list[Mapping[str, Any]]] = {}
    for rung in rungs:
        levels.setdefault(rung["rung"].partition("#")[0], []).append(rung)
    limit, late = parse_slo(slo), late_first_tokens(rungs, rows)
    return [
        level_results(name, waves, by_wave, limit)
        | {"ttft_late_s": max((late[wave["rung"]] for wave in waves if wave["rung"] in late), default=None)}
        for name, waves in levels.items()
    ]


def level_results(
    name: str,
    waves: Sequence[Mapping[str, Any]],
    by_wave: Mapping[str, Sequence[RequestRecord]],
    slo: Slo | None,
) -> dict[str, Any]:
    """What the waves of one step found together; rates over the sum of their walls."""
    records = [record for wave in waves for record in by_wave.get(wave["rung"], ())]
    done = [record for record in records if str(record.outcome) == "completed"]
    wall = order_free_sum(wave["wall_s"] or 0.0 for wave in waves)
    output, prompt = (
        sum(getattr(r, field) or 0 for r in done) for field in ("completion_tokens", "prompt_tokens")
    )
    speeds = [1 / time for r in done if (time := r.tpot_s)]
    found: dict[str, Any] = {
        "step": name, "concurrency": waves[0]["concurrency"], "requests": len(records),
        "completed": len(done), "failed": len(records) - len(done), "wall_s": wall or None,
        "requests_per_s": _rate(len(done), wall), "output_tokens_per_s": _rate(output, wall),
        "input_tokens_per_s": _rate(prompt, wall), "total_tokens_per_s": _rate(output + prompt, wall),
        "tokens_per_s_per_user": quantile(speeds, 0.5) if speeds else None,
        "mean_isl": prompt / len(done) if done else None, "mean_osl": output / len(done) if done else None,
        "valid": all(wave["valid"] for wave in waves),
    }  # fmt: skip
    for metric in _METRICS:
        times = [time for r in done if (time := getattr(r, f"{metric}_s")) is not None]
        if metric != "first_answer" or any(r.reasoning for r in done):
            found[metric] = _quantiles(times)
    if slo is not None:
        good = sum(slo.good(record) for record in records)
        found |= {"slo": str(slo), "good": good, "goodput_per_s": _rate(good, wall),
                  "good_share": good / len(records) if records else None}  # fmt: skip
    return found


def _rate(count: float, wall: float) -> float | None:
    return count / wall if wall else None


def _quantiles(times: Sequence[float]) -> dict[str, Any]:
    found: dict[str, Any] = {"n": len(times), "mean_s": order_free_sum(times) / len(times) if times else None}
    for q in QUANTILES:
        found[f"p{q * 100:g}_s"] = quantile(times, q) if quantile_supported(q, len(times)) else None
    found["median_s"] = quantile(times, 0.5) if times else None
    return found


def results_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as lines of a plain table: first the rates, then the times in milliseconds."""
    if not rows:
        return []
    slo, width = rows[0].get("slo"), max(12, *(len(row["step"]) for row in rows)) + 1
    head = [*_RATE_HEAD, *(("good", "good/s") if slo else ())]
    lines = [_line(width, 10, head)]
    for row in rows:
        good = [str(row["good"]), _number(row["goodput_per_s"], 2)] if slo else []
        lines.append(_line(width, 10, [*_rates(row), *good]) + ("" if row["valid"] else "  not valid"))
    lines += [f"good: within {slo}"] if slo else []
    lines += ["", _line(width, 11, ["step", "ms", "n", "mean", "p50", "p90", "p95", "p99"])]
    known = [(row, metric) for row in rows for metric in _METRICS if row.get(metric, {}).get("n")]
    lines += [_line(width, 11, _times(row, metric)) for row, metric in known]
    if any(row["ttft"]["n"] and row["ttft"]["p99_s"] is None for row in rows):
        lines.append("-: too few requests for that quantile (p99: 500, --p99). ~: median of fewer than ten.")
    return lines + _unknown(rows)


_WHY = {
    "ttft": "replies were not streamed",
    "tpot": "no time between tokens was seen: one token a reply, or all of them in one event",
    "itl": "events bring several tokens, and the server does not say how many the first one brought",
}


def _unknown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why a time is in no line, or is not to be trusted."""
    lines = []
    for metric, why in _WHY.items():
        steps = [row["step"] for row in rows if row["completed"] and not row[metric]["n"]]
        if steps and not (metric == "itl" and not any(row["tpot"]["n"] for row in rows)):
            lines.append(f"{_NAMES[metric]} of {', '.join(steps)} is unknown: {why}.")
    if late := [row["ttft_late_s"] for row in rows if row.get("ttft_late_s")]:
        lines.append(
            f"TTFT?: this client's timers were late by up to {max(late) * 1000:.1f} ms, more than 5 % of it; "
            "the other times stand. A machine with less to do measures it."
        )
    return lines


def _line(first: int, other: int, cells: Sequence[str]) -> str:
    return f"{cells[0]:<{first}}" + "".join(f"{cell:>{other}}" for cell in cells[1:])


_RATE_HEAD = ("step", "requests", "failed", "req/s", "out tok/s", "in tok/s", "per user", "ISL", "OSL")


def _rates(row: Mapping[str, Any]) -> list[str]:
    keys = ("requests_per_s", "output_tokens_per_s", "input_tokens_per_s", "tokens_per_s_per_user")
    rates = [_number(row[key], 2 if key == "requests_per_s" else 1) for key in keys]
    return [row["step"], str(row["requests"]), str(row["failed"]), *rates,
            _number(row["mean_isl"], 0), _number(row["mean_osl"], 0)]  # fmt: skip


def _times(row: Mapping[str, Any], metric: str) -> list[str]:
    found = row[metric]
    middle = _number(_ms(found["p50_s"]), 1)
    if found["p50_s"] is None and found["n"]:
        middle = f"~{_number(_ms(found['median_s']), 1)}"
    rest = [_number(_ms(found[f"p{q * 100:g}_s"]), 1) for q in QUANTILES[1:]]
    mean = _number(_ms(found["mean_s"]), 1)
    name = _NAMES[metric] + "?" * (metric == "ttft" and bool(row.get("ttft_late_s")))
    return [row["step"], name, str(found["n"]), mean, middle, *rest]


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else format_decimal(value, digits)
