"""Shared by all tests: the NOT RUN table, and how many examples hypothesis tries."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

pytest_plugins = ["not_run"]

# Started under nohup or from a script's background, SIGINT is ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples everywhere, and no deadline: two shared cores are slow at random.
settings.register_profile("k3", derandomize=True, deadline=None, database=None, max_examples=30)
settings.register_profile("nightly", settings.get_profile("k3"), max_examples=400)
settings.load_profile("nightly" if os.environ.get("K3_NIGHTLY") else "k3")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a slow test first, so that no worker is left with one when the others are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
