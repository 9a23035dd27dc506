"""One [[stage]] table, checked key by key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k3repro.errors import PipelineError
from k3repro.pipeline._reading import count, name_list, positive, strict, typed
from k3repro.pipeline._spec import EVERYTHING, SERVE_KEYS, STAGE_KEYS, Serve, Stage

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")


def read_stage(table: Any, path: Path, number: int, timeout: float) -> Stage:
    """The stage of table `number` of file `path`; `timeout` is the pipeline's cell timeout in seconds."""
    name = table.get("name") if isinstance(table, dict) else None
    where = f"{path}: stage {name!r}" if isinstance(name, str) else f"{path}: [[stage]] number {number}"
    if not isinstance(table, dict):
        raise PipelineError("a stage is a table", where=where, fix="Write [[stage]] above its keys.")
    strict(table, STAGE_KEYS, where)
    for key in ("name", "notebook"):
        if not typed(table, key, str, where, ""):
            raise PipelineError(f"key {key!r} is missing", where=where)
    if not _NAME.match(table["name"]):
        raise PipelineError(
            "a stage name is lower-case letters, digits, dots and dashes",
            where=where,
            fix="Rename the stage.",
        )
    stage = Stage(
        name=table["name"],
        notebook=table["notebook"],
        after=name_list(table, "after", where),
        parameters=_parameters(table, where),
        seals=name_list(table, "seals", where),
        inputs=name_list(table, "inputs", where),
        code=name_list(table, "code", where),
        files=_patterns(table, where),
        serve=_serve(table, where),
        cell_timeout_s=positive(table, "cell_timeout_s", where, timeout),
        verdict=typed(table, "verdict", str, where, "ok"),
        view=typed(table, "view", bool, where, False),
    )
    _check_stage(stage, where)
    return stage


def _patterns(table: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """File patterns, all inside the project: what lies outside is on no other machine."""
    patterns = name_list(table, "files", where)
    for pattern in patterns:
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or "\\" in pattern:
            raise PipelineError(
                f"files holds {pattern!r}, which leaves the project",
                where=where,
                fix='Write paths from the project folder, e.g. "artifacts/publications/*/*.toml".',
            )
    return patterns


def _check_stage(stage: Stage, where: str) -> None:
    if stage.verdict not in ("ok", "any"):
        raise PipelineError(f"verdict is {stage.verdict!r}", where=where, fix='Write "ok" or "any".')
    if EVERYTHING in stage.inputs and not stage.view:
        raise PipelineError(
            "only a view may read every artifact", where=where, fix="Name the inputs, or write view = true."
        )
    if stage.view and stage.seals:
        raise PipelineError("a view seals nothing", where=where, fix="Drop view or seals.")
    if not stage.view and not stage.seals:
        raise PipelineError(
            "key 'seals' is missing or empty, so nothing could show that the stage worked",
            where=where,
            fix='List what it seals, e.g. seals = ["osl-sweep@{TARGET}"], or write view = true.',
        )


def _serve(table: Mapping[str, Any], where: str) -> Serve | None:
    raw = typed(table, "serve", dict, where, None)
    if raw is None:
        return None
    where = f"{where}: serve"
    strict(raw, SERVE_KEYS, where)
    recipe = typed(raw, "recipe", str, where, "")
    if not recipe:
        raise PipelineError("key 'recipe' is missing", where=where)
    return Serve(
        recipe=recipe,
        overrides=typed(raw, "overrides", dict, where, {}),
        fresh=typed(raw, "fresh", bool, where, False),
        reuse_group=typed(raw, "reuse_group", str, where, ""),
        nodes=count(raw, "nodes", where),
        requests=count(raw, "requests", where),
        hours=positive(raw, "hours", where, None),
    )


def _parameters(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    parameters: dict[str, Any] = typed(table, "parameters", dict, where, {})
    for key, value in parameters.items():
        if not key.isidentifier():
            raise PipelineError(f"parameter {key!r} is not a Python name", where=where)
        problem = _unfit(value)
        if problem:
            raise PipelineError(
                f"parameter {key} {problem}",
                where=where,
                fix="Use text, true or false, a finite number, a list or a table; leave unknowns out.",
            )
    return parameters


def _unfit(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which no notebook file and no artifact can hold"
    if isinstance(value, dict):
        return next((problem for item in value.values() if (problem := _unfit(item))), "")
    if isinstance(value, list):
        return next((problem for item in value if (problem := _unfit(item))), "")
    return "" if isinstance(value, str | bool | int | float) else f"is a {type(value).__name__}"
