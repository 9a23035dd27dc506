"""What a check found."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Where, what, which rule, and how to fix it."""

    where: str
    what: str
    rule: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.where}: {self.what} [{self.rule}]{f'. {self.fix}' if self.fix else ''}"
