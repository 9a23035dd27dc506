"""One thing that a check found wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass

RESTORE = "Restore it from git, or retract the artifact with a reason."


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what kind, where, what exactly, and what fixes it."""

    code: str
    where: str
    what: str
    fix: str = RESTORE

    def __str__(self) -> str:
        return f"{self.where}: {self.what.rstrip('.')}. {self.fix}"

    def as_dict(self) -> dict[str, str]:
        """The finding as `--json` prints it."""
        return asdict(self)
