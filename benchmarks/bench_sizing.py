"""How many deployments the sizing search simulates in a second, one process against two.

    python benchmarks/bench_sizing.py [CANDIDATES]

Candidates: prefill and decode pools, slots, KV splits, prefix caching and batch tokens around the published
settings, all for 64 users with 1,024 prompt and 256 output tokens, 256 requests each.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from k3repro.errors import UsageError
from k3repro.sizing import Candidate, plan_of, published, try_candidate
from k3repro.workload import Workload


def candidates(count: int) -> list[Candidate]:
    """`count` candidates that start."""
    base = published("mi325x")
    found: list[Candidate] = []
    knobs = itertools.product(
        range(1, 9), range(1, 9), (8, 16, 32, 64), ("one", "chosen"), (2048, 4096), (False, True)
    )
    for x, y, seqs, splits, batch, caching in knobs:
        settings = replace(
            base.settings,
            max_num_seqs=seqs,
            kv_splits=splits,
            max_num_batched_tokens=batch,
            prefix_caching=caching,
        )
        one = replace(base, prefill_pools=x, decode_pools=y, settings=settings)
        try:
            one.twin()
        except UsageError:
            continue
        found.append(one)
        if len(found) == count:
            break
    return found


def main() -> None:
    """Print one JSON document."""
    ready = candidates(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    plan = plan_of(Workload.of({"isl": 1024, "osl": 256, "users": 64}), requests=256)
    work = partial(try_candidate, plan=plan)
    begin = time.perf_counter()
    alone = [work(one).values for one in ready]
    one_s = time.perf_counter() - begin
    processes = os.cpu_count() or 1
    begin = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        shared = [trial.values for trial in pool.map(work, ready, chunksize=16)]
    many_s = time.perf_counter() - begin
    assert alone == shared, "a candidate gives the same trial in every process"
    said = {"candidates": len(ready), "one_process_s": one_s, "processes": processes, "processes_s": many_s}
    print(json.dumps({**said, "candidates_per_s": len(ready) / many_s, "speedup": one_s / many_s}, indent=1))


if __name__ == "__main__":
    main()
