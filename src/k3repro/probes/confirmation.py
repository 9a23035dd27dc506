"""A second serve: a limit or failure is a fact about one serve until another one shows it too.

`k3repro probe NAME --confirm` repeats a run on a fresh serve and seals this comparison. What the second
serve does not show is no platform fact; whoever retracts it does so in the ledger, where it stays
visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from k3repro.errors import InputError, InvalidRun, UsageError
from k3repro.store import Artifact, Col, Row, Rows, Schema, Store, derivation

SEEN_ON_ONE = "seen on one serve"


class Limit(Row, table="limits", key=("limit", "statement")):
    """Limits and failures of a probe, over all serves that ran it alike."""

    limit: Annotated[str, Col(doc="what failed or where something ends")]
    statement: Annotated[str, Col(doc="as the first serve that showed it put it")]
    first_serve: Annotated[str | None, Col(doc="serve that showed it first")]
    shown_by: Annotated[int | None, Col("serves", "how many showed it")]
    of_serves: Annotated[int | None, Col("serves", "how many ran the same probe with the same parameters")]
    standing: Annotated[str | None, Col(doc="seen on one serve, reproduced, or not reproduced")]


def limits(artifact: Artifact) -> dict[str, str]:
    """What a run says ends or fails, by name: cells, knees, recall, needles, and rungs that are not valid."""
    return dict(_limits(artifact))


def _limits(artifact: Artifact) -> Iterator[tuple[str, str]]:
    names = {table.name for table in artifact.schema.tables}
    if "cells" in names:
        for row in artifact.rows("cells"):
            if not row["verdict"].startswith("served"):
                yield f"cell {row['context']} tokens x {row['concurrency']}", row["verdict"]
    verdict = artifact.verdict
    if "knee" in verdict:
        yield "knee", f"at {verdict['knee']}" if verdict["knee"] else "none within the ladder"
    for shape, at in sorted((verdict.get("knees") or {}).items()):
        yield f"knee of {shape}", f"at {at}" if at else "none within the ladder"
    if "first_failure" in verdict:
        failed = verdict["first_failure"]
        yield "recall", f"first failure at {failed} tokens" if failed else "no failure within the ladder"
    for outcome in sorted(set(verdict.get("outcomes") or {}) - {"hit"}):
        yield f"needles that end as {outcome}", "some"
    for row in artifact.rows("rungs") if "rungs" in names else []:
        if row["measured"] and not row["valid"]:
            yield f"rung {row['rung']}", "not valid"


@derivation(name="confirmation", schema=Schema((Limit.TABLE,)))
def confirm_limits(inputs: Sequence[Artifact]) -> Rows:
    """Which limits how many serves showed.

    Raises:
        InputError: other probes or parameters among the inputs, or one serve twice.
    """
    return {"limits": _confirmed(inputs)}


def _confirmed(inputs: Sequence[Artifact]) -> list[Limit]:
    alike = {(x.name, str(sorted(_shape(x).items()))) for x in inputs}
    if len(alike) > 1:
        raise InputError("these runs are not the same probe with the same parameters")
    serves = [str(artifact.serve.get("id")) for artifact in inputs]
    if len(set(serves)) != len(serves):
        raise InputError(
            "one serve stands twice among them", fix="A second look at one serve confirms nothing."
        )
    seen: dict[tuple[str, str], list[str]] = {}
    for artifact, serve in zip(inputs, serves, strict=True):
        for found in limits(artifact).items():
            seen.setdefault(found, []).append(serve)
    return [_row(found, shown, len(serves)) for found, shown in seen.items()]


def _row(found: tuple[str, str], shown: Sequence[str], total: int) -> Limit:
    if total == 1:
        standing = SEEN_ON_ONE
    elif len(shown) > 1:
        standing = f"reproduced on {len(shown)} of {total} serves"
    else:
        standing = f"not reproduced: one of {total} serves"
    return Limit(
        limit=found[0], statement=found[1], first_serve=shown[0], shown_by=len(shown),
        of_serves=total, standing=standing,
    )  # fmt: skip


def _shape(artifact: Artifact) -> dict[str, Any]:
    return {key: value for key, value in artifact.parameters.items() if key not in ("seed", "unsafe")}


def earlier_runs(store: Store, name: str, subject: str) -> list[Artifact]:
    """The runs a confirmation stands beside: those with the parameters of the newest, one per serve,
    oldest first.

    Raises:
        UsageError: the probe never ran on this target.
    """
    found = store.artifacts(name=name, subject=subject)
    if not found:
        fix = f"Run `k3repro probe {name} --target ...` first; --confirm repeats it on a fresh serve."
        raise UsageError("nothing to confirm", where=f"{name}@{subject}", fix=fix)
    alike = [run for run in found if _shape(run) == _shape(found[-1])]
    return list({str(run.serve.get("id")): run for run in alike}.values())


def require_fresh(before: Sequence[Artifact], serve: str, target: str) -> None:
    """Refuse to confirm on a serve that already ran it.

    Raises:
        InvalidRun: it did.
    """
    if serve in {run.serve.get("id") for run in before}:
        fix = "Relaunch the stack (all roles), then run the same command again."
        raise InvalidRun(
            f"{serve} ran this already; a confirmation takes a fresh serve", where=target, fix=fix
        )


def seal_confirmation(store: Store, runs: Sequence[Artifact]) -> Artifact:
    """Derive and seal the comparison; its verdict is not ok when a limit was not reproduced."""
    rows = _confirmed(runs)
    lost = [f"{row.limit}: {row.statement}: {row.standing}" for row in rows if row.shown_by == 1]
    shown = f"{len(rows) - len(lost)} of {len(rows)} limits reproduced"
    verdict = {
        "ok": not lost,
        "reasons": lost,
        "standing": shown,
        "serves": [run.serve["id"] for run in runs],
    }
    return store.derive(
        confirm_limits, list(runs), subject=f"{runs[0].name}@{runs[0].subject}", verdict=verdict
    )
