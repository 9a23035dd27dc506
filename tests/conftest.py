"""Shared by all tests: the NOT RUN table, and hypothesis settled on one profile."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["not_run"]

# The same examples everywhere, and no deadline: two shared cores are slow at random.
settings.register_profile("k3", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "k3"))
