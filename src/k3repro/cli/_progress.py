"""Which progress a command shows."""

from __future__ import annotations

from collections.abc import Callable

from k3repro.probes import Progress, Silent, choose

__all__ = ["quiet_or_shown"]


def quiet_or_shown(quiet: bool) -> Callable[[], Progress]:
    """A maker of reporters: silent ones for `--json`, else what fits the terminal."""
    return Silent if quiet else choose
