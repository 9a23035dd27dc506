"""saturation: how many users until more of them bring nothing: short shapes, to a thousand users.

A closed loop: each user sends its next request when the last one ends. The knee is where the output rate
stops growing; beyond it only waiting grows, which the first-token times show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from k3repro.errors import UsageError
from k3repro.probes._session import Session
from k3repro.probes.ladder import Extra, Steps, climbing, schema_with
from k3repro.probes.plan import Rung
from k3repro.probes.shapes import Shape, knee, parse_shape
from k3repro.store import Col, Row
from k3repro.units import failure_rate_bound, quantile, quantile_supported

NAME = "saturation"
PERFORMANCE = True
EXAMPLES = ("--target twin:mi325x --users 1,250,500,750,1000 --shape 500/200",)
HELP = {
    "users": "Users, each with one request in flight; one rung each.",
    "per_user": "Requests of each user.",
}
# Of the detection matrix: small enough for thousands of trials, with requests in flight together.
TRIAL = {"shape": ("1024/32",), "users": (1, 16, 64)}


class Point(Row, table="points", key=("rung",)):
    """One row per rung of a saturation ladder."""

    rung: str
    shape: Annotated[str | None, Col(doc="input/output tokens")]
    users: Annotated[int | None, Col("requests", "in flight at once")]
    n_requests: Annotated[int | None, Col("requests", "completed")]
    n_sent: Annotated[int | None, Col("requests")]
    n_http_ok: Annotated[int | None, Col("requests", "answered with status 200")]
    n_valid: Annotated[int | None, Col("requests", "whole: every event parsed, an end, the tokens asked for")]
    failure_bound: Annotated[float | None, Col(doc="95 % upper bound of the share that is not whole")]
    output_tokens_per_s: Annotated[float | None, Col("tokens/s")]
    ttft_p50_s: Annotated[float | None, Col("s", "NULL where fewer than ten requests stand behind it")]


SCHEMA = schema_with(Point.TABLE)


@dataclass(frozen=True, slots=True)
class Parameters(Steps):
    """Shapes, users (fine steps from 500 on), and requests of each user."""

    shape: tuple[str, ...] = ("500/200", "2048/512")
    users: tuple[int, ...] = (
        1, 50, 100, 200, 300, 400, 500, 550, 600, 650, 700, 750, 800, 850, 900, 950, 1000,
    )  # fmt: skip
    per_user: int = 1
    timeout_s: float = 3600.0


def _ladder(parameters: Parameters) -> list[tuple[Shape, Rung]]:
    shapes = [parse_shape(text) for text in parameters.shape]
    if not shapes or len(set(parameters.users)) < 2 or parameters.per_user < 1:
        raise UsageError(
            "saturation needs a shape and two numbers of users", fix="--shape 500/200 --users 1,500,1000"
        )
    return [
        (shape, Rung(f"users={users}@{shape.name}", users, users * parameters.per_user, shape.isl, shape.osl,
                     not parameters.natural, parameters.timeout_s))
        for shape in shapes
        for users in sorted(set(parameters.users))
    ]  # fmt: skip


def plan(parameters: Parameters) -> list[Rung]:
    """Each shape from few users to many."""
    return [rung for _, rung in _ladder(parameters)]


def _points(parameters: Parameters) -> Extra:
    """One row of `points` per rung."""
    shapes = {rung.name: shape for shape, rung in _ladder(parameters)}
    return lambda rung, rows: {"points": [_point(shapes[rung.name], rung, rows)]}


def _point(shape: Shape, rung: Rung, rows: list[dict[str, Any]]) -> Point:
    done = [row for row in rows if row["outcome"] == "completed"]
    waits = [(row["first_token_ns"] - row["sent_ns"]) / 1e9 for row in done if row["first_token_ns"]]
    wall = (max(row["done_ns"] for row in rows) - min(row["sent_ns"] for row in rows)) / 1e9
    tokens = sum(row["completion_tokens"] or 0 for row in done)
    return Point(
        rung=rung.name, shape=shape.name, users=rung.concurrency, n_requests=len(done),
        n_sent=len(rows), n_http_ok=sum(row["http_status"] == 200 for row in rows),
        n_valid=len(done), failure_bound=failure_rate_bound(len(done), len(rows)),
        output_tokens_per_s=tokens / wall if wall else None,
        ttft_p50_s=quantile(waits, 0.5) if quantile_supported(0.5, len(waits)) else None,
    )  # fmt: skip


def _knees(session: Session) -> dict[str, Any]:
    """The knee of each shape, None where the rate still grows at the last rung."""
    valid = {row["rung"] for row in session.run.rows("rungs") if row["valid"]}
    rows = [row for row in session.run.rows("points") if row["rung"] in valid]
    return {
        "knees": {
            shape: knee(
                [(row["users"], row["output_tokens_per_s"] or 0.0) for row in rows if row["shape"] == shape]
            )
            for shape in sorted({row["shape"] for row in rows})
        }
    }


procedure, verdict = climbing(plan, _points, _knees)
