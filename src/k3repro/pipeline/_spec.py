"""Pipeline files: TOML with strict keys, read into frozen stages in an order that can run."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from k3repro.errors import PipelineError
from k3repro.pipeline._reading import count, name_list, positive, strict, typed, unknown

PIPELINE_KEYS = ("name", "about", "cell_timeout_s")
STAGE_KEYS = (
    "name",
    "notebook",
    "after",
    "parameters",
    "seals",
    "inputs",
    "code",
    "serve",
    "cell_timeout_s",
    "verdict",
    "view",
)
SERVE_KEYS = ("recipe", "overrides", "fresh", "reuse_group", "nodes", "requests", "hours")
DEFAULT_CELL_TIMEOUT_S = 1800.0
EVERYTHING = "*"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Serve:
    """The bring-up a stage needs, and what it will cost as far as the author of the stage knows.

    `hours` is wall time of the stage on the serve, `nodes` what the serve occupies, `requests` what the stage
    sends; None means "not stated" and is printed so.
    """

    recipe: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = False
    reuse_group: str = ""
    nodes: int | None = None
    requests: int | None = None
    hours: float | None = None

    @property
    def launch(self) -> str:
        """Stages with the same launch can share one serve; a `fresh` stage never shares."""
        return repr((self.recipe, sorted(self.overrides.items()), self.reuse_group))


@dataclass(frozen=True)
class Stage:
    """One notebook, its parameters and inputs, and the artifacts it must seal."""

    name: str
    notebook: str
    after: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seals: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    serve: Serve | None = None
    cell_timeout_s: float = DEFAULT_CELL_TIMEOUT_S
    verdict: str = "ok"
    view: bool = False


@dataclass(frozen=True)
class Pipeline:
    """A pipeline file: `root` is the project folder that notebook paths are relative to."""

    name: str
    path: Path
    root: Path
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage:
        """The stage called `name`; PipelineError with near misses when there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise unknown("stage", name, [stage.name for stage in self.stages], where=str(self.path))

    def needs(self, stage: Stage) -> tuple[str, ...]:
        """Names of the stages that must end before `stage`: its `after` and the sealers of its inputs."""
        sealers = {seal: other.name for other in self.stages for seal in other.seals}
        if EVERYTHING in stage.inputs:
            return tuple(other.name for other in self.stages if other.seals)
        needed = set(stage.after) | {sealers[item] for item in stage.inputs if item in sealers}
        return tuple(other.name for other in self.stages if other.name in needed)

    def with_target(self, target: str) -> Pipeline:
        """The same pipeline against another target: stages that have a parameter TARGET get this one."""
        if not any("TARGET" in stage.parameters for stage in self.stages):
            raise PipelineError(
                "no stage has a parameter TARGET",
                where=str(self.path),
                fix="Leave --target out, or give a stage parameters = { TARGET = ... }.",
            )
        stages = tuple(
            replace(s, parameters={**s.parameters, "TARGET": target}) if "TARGET" in s.parameters else s
            for s in self.stages
        )
        return replace(self, stages=stages)

    def resolved(self) -> Pipeline:
        """Replace `{PARAMETER}` in seals and inputs, then check the graph."""
        stages = tuple(_substitute(self.path, stage) for stage in self.stages)
        pipeline = replace(self, stages=stages)
        _check_seals(pipeline)
        return replace(pipeline, stages=_topological(pipeline))


def find_pipeline(name: str, start: Path | None = None) -> Path:
    """The file of pipeline `name`: a path, or NAME.toml in the nearest `pipelines/` upward of `start`."""
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        if path.is_file():
            return path.resolve()
        raise PipelineError("no such pipeline file", where=name, fix="Give a path, or a name in pipelines/.")
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        shelf = folder / "pipelines"
        if shelf.is_dir():
            if (shelf / f"{name}.toml").is_file():
                return shelf / f"{name}.toml"
            names = sorted(path.stem for path in shelf.glob("*.toml"))
            raise unknown("pipeline", name, names, where=str(shelf))
    raise PipelineError(
        "no folder pipelines/ here or above", where=str(here), fix="Run inside a clone of the project."
    )


def load_pipeline(name: str | Path, *, target: str | None = None, start: Path | None = None) -> Pipeline:
    """Read and check a pipeline; raise PipelineError (one line: file, stage, key, near misses) when wrong."""
    path = find_pipeline(str(name), start)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"not TOML: {error}", where=str(path)) from None
    except OSError as error:
        raise PipelineError(f"cannot be read: {error.strerror}", where=str(path)) from None
    strict(document, ("pipeline", "stage"), str(path))
    head = typed(document, "pipeline", dict, str(path), {})
    strict(head, PIPELINE_KEYS, f"{path}: [pipeline]")
    timeout = positive(head, "cell_timeout_s", f"{path}: [pipeline]", DEFAULT_CELL_TIMEOUT_S)
    tables = typed(document, "stage", list, str(path), [])
    stages = tuple(_stage(table, path, number, timeout) for number, table in enumerate(tables, 1))
    root = path.parent.parent if path.parent.name == "pipelines" else path.parent
    title = typed(head, "name", str, f"{path}: [pipeline]", path.stem)
    if title != path.stem:
        raise PipelineError(
            f"name is {title!r} but the file is {path.name}",
            where=f"{path}: [pipeline]",
            fix=f'Write name = "{path.stem}".',
        )
    pipeline = Pipeline(title, path, root, stages)
    _check_names(pipeline)
    return (pipeline.with_target(target) if target else pipeline).resolved()


def _stage(table: Any, path: Path, number: int, timeout: float) -> Stage:
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
        serve=_serve(table, where),
        cell_timeout_s=positive(table, "cell_timeout_s", where, timeout),
        verdict=typed(table, "verdict", str, where, "ok"),
        view=typed(table, "view", bool, where, False),
    )
    _check_stage(stage, where)
    return stage


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


def _substitute(path: Path, stage: Stage) -> Stage:
    def fill(items: tuple[str, ...], key: str) -> tuple[str, ...]:
        return tuple(_PLACEHOLDER.sub(lambda match: lookup(match.group(1), key), item) for item in items)

    def lookup(name: str, key: str) -> str:
        if name not in stage.parameters:
            where = f"{path}: stage {stage.name!r}: {key}"
            raise unknown("parameter", name, list(stage.parameters), where=where)
        return str(stage.parameters[name])

    return replace(stage, seals=fill(stage.seals, "seals"), inputs=fill(stage.inputs, "inputs"))


def _check_names(pipeline: Pipeline) -> None:
    names = [stage.name for stage in pipeline.stages]
    if not names:
        raise PipelineError("no stages", where=str(pipeline.path), fix="Add a [[stage]].")
    for name in names:
        if names.count(name) > 1:
            raise PipelineError(f"two stages are called {name!r}", where=str(pipeline.path))
    for stage in pipeline.stages:
        for other in stage.after:
            if other not in names:
                raise unknown("stage", other, names, where=f"{pipeline.path}: stage {stage.name!r}: after")


def _check_seals(pipeline: Pipeline) -> None:
    seen: dict[str, str] = {}
    for stage in pipeline.stages:
        for seal in stage.seals:
            if seal in seen:
                raise PipelineError(
                    f"{seal} is sealed by stage {seen[seal]!r} and by stage {stage.name!r}",
                    where=str(pipeline.path),
                    fix="One stage seals an artifact; give the other a different subject.",
                )
            seen[seal] = stage.name


def _topological(pipeline: Pipeline) -> tuple[Stage, ...]:
    """Stages in file order as far as their needs allow; a cycle is an error that shows it."""
    done: list[Stage] = []
    waiting = list(pipeline.stages)
    while waiting:
        names = {stage.name for stage in done}
        ready = next((stage for stage in waiting if names.issuperset(pipeline.needs(stage))), None)
        if ready is None:
            ring = ", ".join(f"{stage.name} needs {', '.join(pipeline.needs(stage))}" for stage in waiting)
            raise PipelineError(f"stages wait for each other: {ring}", where=str(pipeline.path))
        waiting.remove(ready)
        done.append(ready)
    return tuple(done)
