"""What a probe can do for somebody in a notebook: put the cell that comes next under the one that failed."""

from __future__ import annotations

import os
import sys

__all__ = ["offer"]


def offer(code: str) -> bool:
    """Insert `code` as the next cell of a notebook with somebody before it; whether that was possible."""
    if "IPython" not in sys.modules or os.environ.get("K3REPRO_RECEIPTS"):
        return False
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return False
    shell.set_next_input(code, replace=False)
    return True
