"""The process twin: one process per role of the recipe, behind a real router (docs/twin-engine.md)."""

from k3repro.twin.engine._flags import Flags, read_flags
from k3repro.twin.engine._launch import RoleLaunch, Transfer, read_launch
from k3repro.twin.engine._run import Options, run_engine

__all__ = ["Flags", "Options", "RoleLaunch", "Transfer", "read_flags", "read_launch", "run_engine"]
