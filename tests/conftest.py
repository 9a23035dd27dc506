"""Shared by all tests: the NOT RUN table, and hypothesis settled on one profile."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

pytest_plugins = ["not_run"]

# Started under nohup or from a script's background, SIGINT is ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples everywhere, and no deadline: two shared cores are slow at random.
settings.register_profile("k3", derandomize=True, deadline=None, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "k3"))
