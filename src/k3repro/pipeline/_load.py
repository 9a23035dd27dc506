"""Find, read and check a pipeline file; every mistake is one line that names file, stage and key."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from k3repro.errors import PipelineError
from k3repro.pipeline._reading import positive, strict, typed, unknown
from k3repro.pipeline._spec import DEFAULT_CELL_TIMEOUT_S, PIPELINE_KEYS, Pipeline, Stage
from k3repro.pipeline._table import read_stage
from k3repro.toml import read_toml

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


def find_pipeline(name: str, start: Path | None = None) -> Path:
    """The file of pipeline `name`: a path, or NAME.toml in the nearest `pipelines/` upward of `start`.

    Raises:
        PipelineError: no such file, or no folder pipelines/ upward of `start`.
    """
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


def load_pipeline(
    name: str | Path, *, target: str | None = None, subject: str = "", start: Path | None = None
) -> Pipeline:
    """Read and check a pipeline; raise PipelineError (one line: file, stage, key, near misses) when wrong.

    `target` goes into every parameter TARGET; `subject` is what artifacts of it are called.
    """
    path = find_pipeline(str(name), start)
    document = read_toml(path, where=str(path), error=PipelineError)
    strict(document, ("pipeline", "stage"), str(path))
    head = typed(document, "pipeline", dict, str(path), {})
    strict(head, PIPELINE_KEYS, f"{path}: [pipeline]")
    timeout = positive(head, "cell_timeout_s", f"{path}: [pipeline]", DEFAULT_CELL_TIMEOUT_S)
    tables = typed(document, "stage", list, str(path), [])
    stages = tuple(read_stage(table, path, number, timeout) for number, table in enumerate(tables, 1))
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
    if target:
        pipeline = pipeline.with_target(target, subject or target)
    return _resolved(pipeline, one_target=bool(target))


def _resolved(pipeline: Pipeline, *, one_target: bool) -> Pipeline:
    """Replace `{PARAMETER}` in seals and inputs, check who seals what, and put stages in order."""
    stages = tuple(_substitute(pipeline.path, stage) for stage in pipeline.stages)
    pipeline = replace(pipeline, stages=_merged(stages) if one_target else stages)
    _check_seals(pipeline)
    return replace(pipeline, stages=_topological(pipeline))


def _merged(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """With one target for all, stages that measured several targets alike do the same: the first stays."""
    sealer: dict[str, str] = {}
    stands_for: dict[str, str] = {}
    kept: list[Stage] = []
    for stage in stages:
        twin = next((sealer[seal] for seal in stage.seals if seal in sealer), None)
        if twin is not None:
            stands_for[stage.name] = twin
            continue
        sealer |= dict.fromkeys(stage.seals, stage.name)
        kept.append(stage)
    return tuple(
        replace(stage, after=tuple(dict.fromkeys(stands_for.get(name, name) for name in stage.after)))
        for stage in kept
    )


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
