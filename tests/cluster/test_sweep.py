"""A sweep of sizing candidates by Dask workers that Slurm started: the same trials as in this process.

`K3_SWEEP=10000 make test-cluster PYTEST_ARGS='-k sweep'` runs the sweep at full length.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from cluster_hosts import MEASURED, Hosts

from k3repro.pipeline import open_executor
from k3repro.sizing import Candidate, plan_of, published, try_candidate
from k3repro.workload import Workload

pytestmark = pytest.mark.cluster
CANDIDATES = int(os.environ.get("K3_SWEEP", "200"))


def candidates(count: int) -> list[Candidate]:
    """Pools, slots, KV splits and prefix caching around the published settings."""
    base = published("mi325x")
    knobs = itertools.product(range(1, 36), range(1, 36), (8, 16, 32, 64), ("one", "chosen"), (False, True))
    return [
        replace(
            base, prefill_pools=x, decode_pools=y,
            settings=replace(base.settings, max_num_seqs=seqs, kv_splits=splits, prefix_caching=caching),
        )
        for x, y, seqs, splits, caching in itertools.islice(knobs, count)
    ]  # fmt: skip


def test_a_sweep_on_slurm(hosts: Hosts, clean: Path) -> None:
    jobqueue = pytest.importorskip("dask_jobqueue", reason="the extra k3repro[dask] is not installed")
    ready = candidates(CANDIDATES)
    work = partial(
        try_candidate, plan=plan_of(Workload.of({"isl": 1024, "osl": 64, "users": 16}), requests=64)
    )
    begun = time.monotonic()
    with jobqueue.SLURMCluster(
        queue="main", cores=1, processes=1, memory="900MB", walltime="00:30:00", python=sys.executable,
        log_directory=str(clean), local_directory=str(clean), worker_extra_args=["--interface", "eth0"],
        scheduler_options={"host": "10.78.0.254", "dashboard": False},
    ) as cluster:  # fmt: skip
        cluster.scale(jobs=4)
        with open_executor(f"dask:{cluster.scheduler_address}") as pool:
            found = list(pool.map(work, ready))
    MEASURED.append((f"slurm: a sweep of {len(ready)} candidates", f"{time.monotonic() - begun:.1f} s"))
    assert len(found) == len(ready)
    for index in random.Random(7).sample(range(len(ready)), min(50, len(ready))):
        assert found[index] == work(ready[index])
