"""Headers of a full-size Kimi-K3 checkpoint (96 shards, 497,220 tensors), against the least a reader must do.

    python benchmarks/bench_headers.py [--peer PYTHON] [--repeats N]

Every reader is its own process on one core; repeats are interleaved. The floor reads the files and parses
their JSON, nothing else. Ratios are of CPU seconds, which other work on the machine disturbs least. PYTHON is
the interpreter of an environment with hf-mem, which reads the same files from the same local server; without
it the peer is listed as not run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _figures import figure
from rich.console import Console
from rich.table import Table

from k3repro.budget import write_fixture
from k3repro.spec import load_model

Run = tuple[float, float, float, int, int | None, int]

_COMMON = """
import json, os, resource, sys, time
source = sys.argv[1]
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
cpu = time.process_time()
def done(begin, tensors, size, parts):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([time.perf_counter() - begin, time.process_time() - cpu, peak, tensors, size, parts]))
"""
_FLOOR = (
    _COMMON
    + """
from pathlib import Path
begin = time.perf_counter()
count = 0
for path in sorted(Path(source).glob("*.safetensors")):
    with path.open("rb") as stream:
        count += len(json.loads(stream.read(int.from_bytes(stream.read(8), "little")))) - 1
done(begin, count, None, 0)
"""
)
_OURS = (
    _COMMON
    + """
from k3repro.budget import checkpoint_of_headers
begin = time.perf_counter()
found = checkpoint_of_headers(source).inventory
done(begin, found.tensors, found.bytes, sum(1 for part in found.components.values() if part.tensors))
"""
)
_PEER = (
    _COMMON
    + """
import asyncio, httpx2
from functools import reduce
from hf_mem._fetch import get_json_file
from hf_mem.run import MAX_CONCURRENCY
from hf_mem.safetensors.fetch import fetch_safetensors_metadata
from hf_mem.safetensors.metadata import parse_safetensors_metadata
async def read():
    gate = asyncio.Semaphore(MAX_CONCURRENCY)
    async with httpx2.AsyncClient(timeout=60) as client:
        index = await get_json_file(client=client, url=source + "/model.safetensors.index.json")
        async def one(name):
            async with gate:
                return await fetch_safetensors_metadata(client=client, url=source + "/" + name)
        return await asyncio.gather(*map(one, sorted(set(index["weight_map"].values()))))
begin = time.perf_counter()
merged = reduce(lambda a, b: a | b, asyncio.run(read()), {})
found = parse_safetensors_metadata(raw_metadata={"Transformer": merged})
done(begin, len(merged) - ("__metadata__" in merged), found.bytes_count, len(found.components))
"""
)
_SERVER = """
import sys
from aiohttp import web
app = web.Application()
app.router.add_static("/", sys.argv[1])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=lambda text: print("ready", flush=True))
"""


def measure(python: str, program: str, source: str) -> Run:
    """Wall and CPU seconds, peak bytes, tensors, bytes and components of one reader in its own process."""
    result = subprocess.run([python, "-c", program, source], capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"a reader failed:\n{result.stderr[-2000:]}")
    wall, cpu, peak, tensors, size, parts = json.loads(result.stdout.splitlines()[-1])
    return wall, cpu, peak, tensors, size, parts


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", help="interpreter of an environment with hf-mem")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        write_fixture(load_model("kimi-k3"), Path(folder))
        print(f"fixture written in {time.perf_counter() - begin:.1f} s")
        port = 18_000 + os.getpid() % 10_000
        server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, folder, str(port)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()
            report(options, folder, f"http://127.0.0.1:{port}")
        finally:
            server.terminate()
            server.wait()


def report(options: argparse.Namespace, folder: str, url: str) -> None:
    """Interleave the readers and print medians, with ratios to the floor."""
    readers = {
        "floor: read and parse JSON": (sys.executable, _FLOOR, folder),
        "k3repro, files": (sys.executable, _OURS, folder),
        "k3repro, HTTP": (sys.executable, _OURS, url),
    }
    if options.peer:
        readers["hf-mem, HTTP"] = (options.peer, _PEER, url)
    runs: dict[str, list[Run]] = {name: [] for name in readers}
    for _ in range(options.repeats):
        for name, (python, program, source) in readers.items():
            runs[name].append(measure(python, program, source))
    table = Table(title=f"96 shards, one core, median of {options.repeats} interleaved")
    for column in ("reader", "wall s", "CPU s", "of floor", "peak MiB", "tensors", "bytes", "components"):
        table.add_column(column, justify="left" if column == "reader" else "right")
    floor = statistics.median(run[1] for run in runs["floor: read and parse JSON"])
    for name, measured in runs.items():
        wall, cpu = (statistics.median(run[k] for run in measured) for k in (0, 1))
        peak = max(run[2] for run in measured) / 2**20
        *_, tensors, size, parts = measured[0]
        shown = "" if size is None else f"{size:,}"
        table.add_row(
            name,
            f"{wall:.2f}",
            f"{cpu:.2f}",
            f"{cpu / floor:.2f}",
            f"{peak:.0f}",
            f"{tensors:,}",
            shown,
            str(parts),
        )
    if not options.peer:
        table.add_row("hf-mem, HTTP", "not run: --peer PYTHON", "", "", "", "", "", "")
    Console(width=110).print(table)
    wall, cpu = (statistics.median(run[k] for run in runs["k3repro, HTTP"]) for k in (0, 1))
    figure("headers of 96 shards over HTTP, wall", wall, "s", most=2)
    if options.peer:
        theirs = statistics.median(run[1] for run in runs["hf-mem, HTTP"])
        figure("headers of 96 shards over HTTP, CPU", cpu, "s", ratio=cpu / theirs, of="hf-mem", most=1)
    for command, most in (("--help", None), ("budget --model kimi-k3 --platform mi300x", 0.5)):
        figure(f"k3repro {command}, CPU", command_s(command.split()), "s", most=most)


def command_s(arguments: list[str]) -> float:
    """CPU seconds of one command, least of five."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "k3repro", *arguments], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


if __name__ == "__main__":
    main()
