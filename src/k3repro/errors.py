"""Every error k3repro raises on purpose, and the exit code each one means.

K3Error
├── UsageError (exit 2): what was asked for is wrong
│   ├── SpecError             a model, platform, layout or recipe description is wrong
│   ├── PipelineError         a pipeline file, stage or parameter is wrong
│   └── InputError            an input file or value is malformed
├── FindingError (exit 1): a check ran and found something
│   ├── GateFailed            a number on a page has no artifact, or a check of the site failed
│   ├── AuditFailed           artifacts, site or claims contradict themselves
│   ├── StageFailed           a stage of a pipeline died or sealed nothing
│   └── InvalidRun            the instrument says that the run cannot be trusted
│       └── Interrupted       somebody stopped it (exit 130): what was measured is kept
└── MachineError (exit 3): the machine, the store or the target cannot do it
    ├── StoreError            the artifact store
    │   ├── ArtifactMissing   no such artifact
    │   ├── ArtifactCorrupt   bytes or digests do not agree
    │   └── ArtifactRefused   an untrusted file holds something we do not open
    ├── TargetError           the server a probe talks to
    └── MissingExtra          an optional dependency is not installed
"""

from __future__ import annotations

import os
from typing import Any

__all__ = [
    "ArtifactCorrupt",
    "ArtifactMissing",
    "ArtifactRefused",
    "AuditFailed",
    "FindingError",
    "GateFailed",
    "InputError",
    "Interrupted",
    "InvalidRun",
    "K3Error",
    "MachineError",
    "MissingExtra",
    "PipelineError",
    "SpecError",
    "StageFailed",
    "StoreError",
    "TargetError",
    "UsageError",
]


class K3Error(Exception):
    """Base of all errors raised on purpose: what is wrong, where, and what fixes it."""

    exit_code = 3

    def __init__(self, what: str, *, where: str = "", fix: str = "", **context: Any) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        self.context = context

    def __str__(self) -> str:
        """One line: ``where: what. fix``."""
        line = f"{self.where}: {self.what}" if self.where else self.what
        line = f"{line.rstrip('.')}. {self.fix}" if self.fix else line
        return " ".join(line.split())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.where, self.fix, self.context)

    def as_dict(self) -> dict[str, Any]:
        """The error as `--json` prints it."""
        return {"error": type(self).__name__, "what": self.what, "where": self.where, "fix": self.fix}


def _one_line(error: K3Error) -> list[str]:
    """What a notebook shows instead of ten frames of ours: the same line."""
    return [f"{type(error).__name__}: {error}"]


if not os.environ.get("K3REPRO_RECEIPTS"):  # a stage of a pipeline is told by the line that failed
    K3Error._render_traceback_ = _one_line  # type: ignore[attr-defined]


def _rebuild(cls: type[K3Error], what: str, where: str, fix: str, context: dict[str, Any]) -> K3Error:
    return cls(what, where=where, fix=fix, **context)


class UsageError(K3Error):
    """What was asked for is wrong."""

    exit_code = 2


class SpecError(UsageError):
    """A model, platform, layout or recipe description is wrong."""


class PipelineError(UsageError):
    """A pipeline file, stage or parameter is wrong."""


class InputError(UsageError):
    """An input file or value is malformed."""


class FindingError(K3Error):
    """A check ran and found something."""

    exit_code = 1


class GateFailed(FindingError):
    """A number on a page has no artifact, or a check of the site failed."""


class AuditFailed(FindingError):
    """Artifacts, site or claims contradict themselves."""


class StageFailed(FindingError):
    """A stage of a pipeline died or sealed nothing."""


class InvalidRun(FindingError):
    """The instrument says that the run cannot be trusted."""


class Interrupted(InvalidRun):
    """Somebody stopped the run; what was measured is kept, and the same command resumes."""

    exit_code = 130


class MachineError(K3Error):
    """The machine, the store or the target cannot do it."""


class StoreError(MachineError):
    """The artifact store cannot do what was asked."""


class ArtifactMissing(StoreError):
    """No such artifact."""


class ArtifactCorrupt(StoreError):
    """Bytes or digests of an artifact or ledger entry do not agree."""


class ArtifactRefused(StoreError):
    """An untrusted file holds something that is not opened."""


class TargetError(MachineError):
    """The server a probe talks to cannot be used."""


class MissingExtra(MachineError):
    """An optional dependency is not installed."""
