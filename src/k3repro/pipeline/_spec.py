"""What a pipeline is: frozen stages, what they seal and read, and what they wait for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from k3repro.errors import PipelineError
from k3repro.pipeline._reading import unknown

PIPELINE_KEYS = ("name", "about", "cell_timeout_s")
STAGE_KEYS = (
    "name",
    "notebook",
    "after",
    "parameters",
    "seals",
    "inputs",
    "code",
    "files",
    "serve",
    "cell_timeout_s",
    "verdict",
    "view",
)
SERVE_KEYS = ("recipe", "overrides", "fresh", "reuse_group", "nodes", "requests", "hours")
DEFAULT_CELL_TIMEOUT_S = 1800.0
EVERYTHING = "*"


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
    files: tuple[str, ...] = ()
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

    def with_target(self, target: str, subject: str) -> Pipeline:
        """The same pipeline against another target: stages that have a parameter TARGET get this one, and
        artifacts declared of {TARGET} are of `subject`.
        """
        if not any("TARGET" in stage.parameters for stage in self.stages):
            raise PipelineError(
                "no stage has a parameter TARGET",
                where=str(self.path),
                fix="Leave --target out, or give a stage parameters = { TARGET = ... }.",
            )

        def aimed(stage: Stage) -> Stage:
            if "TARGET" not in stage.parameters:
                return stage
            seals, inputs = (
                tuple(item.replace("{TARGET}", subject) for item in items)
                for items in (stage.seals, stage.inputs)
            )
            return replace(
                stage, parameters={**stage.parameters, "TARGET": target}, seals=seals, inputs=inputs
            )

        return replace(self, stages=tuple(map(aimed, self.stages)))
