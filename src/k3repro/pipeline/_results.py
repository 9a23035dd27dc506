"""How a pipeline and each of its stages ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from k3repro.errors import StageFailed

_SHOWN = 3


@dataclass(frozen=True)
class StageResult:
    """How one stage ended: fresh, preserved, ran, failed, blocked or interrupted."""

    stage: str
    state: str
    seconds: float = 0.0
    why: tuple[str, ...] = ()
    seals: tuple[str, ...] = ()
    error: str = ""
    notebook: str = ""
    warning: str = ""

    @property
    def ok(self) -> bool:
        """Whether the stage's artifacts stand."""
        return self.state in ("fresh", "preserved", "ran")


@dataclass(frozen=True)
class PipelineResult:
    """All stages in pipeline order."""

    pipeline: str
    stages: tuple[StageResult, ...]
    executed: Path
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every stage's artifacts stand."""
        return all(stage.ok for stage in self.stages)

    def raise_for_failure(self) -> None:
        """Raise StageFailed that names every failed stage and where, if any failed."""
        failed = [stage for stage in self.stages if stage.state == "failed"]
        if not failed:
            return
        blocked = [stage.stage for stage in self.stages if stage.state == "blocked"]
        later = f"; not started because of that: {', '.join(blocked)}" if blocked else ""
        shown = [f"stage {stage.stage}: {stage.error}" for stage in failed[:_SHOWN]]
        shown += [f"and {len(failed) - _SHOWN} more"] if len(failed) > _SHOWN else []
        kept = f"The failed copy is {failed[0].notebook}; " if failed[0].notebook else ""
        raise StageFailed(
            "; ".join(shown) + later,
            where=f"pipeline {self.pipeline}",
            fix=f"{kept}fix it and run `k3repro run {self.pipeline}` again: finished stages are kept.",
            stages=[stage.stage for stage in failed],
        )
