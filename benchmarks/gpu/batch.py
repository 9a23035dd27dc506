"""Run batches of measurements on the GPU of this machine: ``python batch.py BATCH... --until SECONDS``.

Every step stands alone: one that fails is told and left out. The store lies in `$K3GPU_SCRATCH/artifacts`;
after every step it is packed into `$OUT/store.tar.gz`, so that a batch cut short loses the step in flight.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import engines
from engines import SCRATCH, Seat, Serve, complete, say, started
from launches import Launch, load
from predict import SUBJECT

from k3repro.capacity.launches import law_of_launch
from k3repro.probes import Silent, run_probe, seal_start, startup_law
from k3repro.spec import load_model
from k3repro.store import Artifact, Store

GEOMETRY, _, HARDWARE = SUBJECT.partition("@")
LAUNCHES, PLAN = load()
STORE = Store(SCRATCH / "artifacts")
LONG = (1_000, 16_000, 32_000, 64_000, 128_000, 200_000, 300_000, 400_000)
SHORT = (1_000, 16_000, 64_000, 128_000, 200_000)
MIXED = ("4x1K", "64K+3x1K", "4x16K", "2x64K", "8x16K", "200K+7x16K")
REPLY = {"osl": 22, "settle": 6, "timeout_s": 90.0}
FEW = ("4x16K", "64K+3x1K", "2x64K")
_BEGAN = time.monotonic()
_UNTIL = 1e9


def machine() -> dict[str, str]:
    """The accelerator and the libraries that matter, as they say themselves."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {"gpu": "none"}
    name, driver, memory = (part.strip() for part in said.splitlines()[0].split(","))
    import torch
    import triton

    return {
        "gpu": name,
        "driver": driver,
        "memory": memory,
        "torch": torch.__version__,
        "triton": triton.__version__,
    }


MACHINE = json.loads(os.environ.get("K3GPU_MACHINE", "null")) or machine()
os.environ["K3GPU_MACHINE"] = json.dumps(MACHINE)  # children need not ask again


def named(launch: Launch) -> str:
    """What the serve is called in artifacts: geometry, hardware, launch."""
    return f"{SUBJECT}?launch={launch.name}"


def record(serve: Serve | Seat) -> dict[str, Any]:
    """The launch as its serve record keeps it."""
    told = {"flags": [*serve.flags], "ready_s": round(serve.ready_s, 1), "device": serve.device}
    return serve.launch.as_dict() | told | MACHINE


def probe(serve: Serve | Seat, name: str, **shape: Any) -> Artifact | None:
    """One probe of one serve; speed is taken without a gate, which random weights cannot pass."""
    options = {
        "target": serve.url, "store": STORE, "unsafe": True, "hardware": HARDWARE, "progress": Silent(),
        "name_as": named(serve.launch), "launch": record(serve),
    }  # fmt: skip
    return step(f"{name} {serve.launch.name}", partial(run_probe, name, **options, **shape))


def step(what: str, act: Callable[[], Any], need_s: float = 0.0) -> Any:
    """Do one thing, tell how it went, pack the store."""
    began = time.monotonic()
    if began - _BEGAN + need_s > _UNTIL:
        say(f"SKIPPED {what}: {need_s:.0f} s needed, {_UNTIL - began + _BEGAN:.0f} s left")
        return None
    try:
        found = act()
    except Exception as error:
        say(f"FAILED {what}: {type(error).__name__}: {str(error)[:600]}")
        traceback.print_exc(limit=-3, file=sys.stdout)
        return None
    told = (
        f" {found.tier} {[r for r in found.verdict['reasons'] if 'unsafe' not in r][:3]}"
        if isinstance(found, Artifact)
        else ""
    )
    say(f"{what}: {time.monotonic() - began:.1f} s{told}")
    pack()
    return found


def pack() -> None:
    """The store and the logs as files that travel back."""
    out = Path(os.environ.get("OUT", SCRATCH / "out"))
    out.mkdir(parents=True, exist_ok=True)
    part = out / f"store.{os.getpid()}.part"
    with tarfile.open(part, "w:gz", compresslevel=3) as tar:
        for path in sorted((SCRATCH / "artifacts").rglob("*")):
            if path.is_file() and ".wip" not in path.parts and ".cache" not in path.parts:
                tar.add(path, path.relative_to(SCRATCH))
    part.rename(out / "store.tar.gz")


def logs() -> None:
    """Start-up logs, packed."""
    out = Path(os.environ.get("OUT", SCRATCH / "out"))
    with tarfile.open(out / "logs.tar.gz", "w:gz") as tar:
        for path in sorted((SCRATCH / "logs").glob("*.log")):
            tar.add(path, path.name)


def start(serve: Serve) -> None:
    """Seal what it printed, and what the block law says of it."""

    def act() -> Artifact:
        launch = record(serve)
        sealed = seal_start(
            STORE, serve.url, lines=serve.lines(), config=serve.config(), launch=launch,
            name_as=named(serve.launch), hardware=HARDWARE,
        )  # fmt: skip
        law = STORE.derive(startup_law, [sealed], subject=sealed.subject)
        for row in law.rows("law"):
            say(f"  {serve.launch.name}: printed {row['printed_tokens']} predicted {row['predicted_tokens']}")
        return sealed

    step(f"start {serve.launch.name}", act)


def warm(serves: Sequence[Serve], words: int = 300) -> list[Serve]:
    """One completion of each, all at once; an engine that cannot answer is left out."""

    def one(serve: Serve) -> Serve | None:
        try:
            complete(serve, words)
        except OSError as error:
            say(f"{serve.launch.name} does not answer: {error}: {serve.tail()}")
            return None
        return serve

    began = time.monotonic()
    with ThreadPoolExecutor(len(serves) or 1) as pool:
        answered = [serve for serve in pool.map(one, serves) if serve is not None]
    say(f"{len(answered)} of {len(serves)} answered within {time.monotonic() - began:.0f} s")
    return answered


def up(names: Sequence[str], port: int) -> Any:
    """Engines of these launches on ports from `port`, all on the first GPU."""
    return started([(LAUNCHES[name], port + index, "", 0) for index, name in enumerate(names)])


def memory() -> None:
    """How full the GPU is."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader"]
    if MACHINE["gpu"] != "none":
        say(f"memory {subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()}")


def decode(plan: Sequence[tuple[str, Sequence[int], Sequence[str], float]], port: int) -> None:
    """Start all, then measure one after the other: nothing else runs on the GPU meanwhile."""
    with up([name for name, *_ in plan], port) as serves:
        memory()
        serves = warm(serves)
        for serve in serves:
            start(serve)
        shapes = {f"http://127.0.0.1:{port + index}": shape for index, shape in enumerate(plan)}
        for serve in serves:
            _, contexts, mixed, need_s = shapes[serve.url]
            shape = {"context": tuple(contexts), "mixed": tuple(mixed), **REPLY}
            step_need(need_s, lambda serve=serve, shape=shape: probe(serve, "decode-context", **shape), serve)
            engines.stop(serve)


def step_need(need_s: float, act: Callable[[], Any], serve: Serve) -> None:
    """Skip what does not fit in what is left of the call."""
    left = _UNTIL - (time.monotonic() - _BEGAN)
    if left < need_s:
        say(f"SKIPPED {serve.launch.name}: {need_s:.0f} s needed, {left:.0f} s left")
    else:
        act()


def batch_smoke() -> None:
    """Two engines, one short context: does anything of this work here?"""
    decode([("decode-chosen", (1_000, 64_000), ("2x16K",), 0), ("decode-one", (1_000, 64_000), (), 0)], 8100)


def batch_decode_a() -> None:
    """The first serve of every splitting."""
    decode([
        ("decode-chosen", LONG, MIXED, 20), ("decode-one", LONG, MIXED, 60),
        ("decode-eight", LONG, FEW, 20), ("decode-two", SHORT, FEW, 30),
        ("decode-one-16-heads", SHORT, FEW, 40), ("decode-chosen-16-heads", LONG, FEW, 20),
    ], 8110)  # fmt: skip


def batch_decode_b() -> None:
    """Second and third serves, and the cache in bf16."""
    decode([
        ("decode-one", LONG, FEW, 60), ("decode-chosen", LONG, MIXED, 20),
        ("decode-one", LONG, FEW, 60), ("decode-chosen", LONG, MIXED, 20),
        ("decode-one-bf16", SHORT, FEW, 40), ("decode-chosen-bf16", LONG, FEW, 20),
    ], 8120)  # fmt: skip


def batch_decode_c() -> None:
    """Eager launches, and a cache that was prefilled."""
    few = (1_000, 64_000, 200_000, 400_000)
    decode([
        ("decode-one-eager", few, (), 40), ("decode-chosen-eager", few, (), 30),
        ("decode-one-prefilled", (1_000, 16_000, 64_000, 128_000), ("64K+3x1K",), 60),
    ], 8130)  # fmt: skip


def cells(launch: Launch, contexts: Sequence[int], whole: bool) -> tuple[str, ...]:
    """At the law's count, one above, half above; one above alone unless `whole`."""
    law = law_of_launch(load_model("kimi-k3"), launch.as_dict())
    found = []
    for context in contexts:
        count = law.n_max(law.pool_blocks(launch.pool_bytes), context)
        offered = {count, count + 1, -(-3 * count // 2)} if whole else {count + 1}
        found += [f"{context}@{n}" for n in sorted(offered)]
    return tuple(found)


def admission(seat: Seat, contexts: Sequence[int], whole: bool = True) -> None:
    """Running, waiting and preempted as the engine counts them; replies long enough to overlap."""
    for osl, chosen in (
        (48, [c for c in contexts if c < 90_000]),
        (96, [c for c in contexts if c >= 90_000]),
    ):
        if not chosen:
            continue
        shape = {
            "cells": cells(seat.launch, chosen, whole),
            "osl": osl,
            "poll_s": 0.1,
            "timeout_s": 240.0,
            "drain_s": 60.0,
        }
        found = probe(seat, "capacity-grid", **shape)
        for row in found.rows("cells") if found else []:
            told = {name: row[name] for name in ("resident", "waiting", "preemptions", "kv_usage")}
            say(f"  {seat.launch.name} {row['rung']}: {told}")


def hand(decode: Seat, prefill: str) -> None:
    """Bytes of single requests as the decode engine's connector counts them."""
    found = probe(decode, "hand-off", prefill=prefill, isl=tuple(PLAN["prompts"]), timeout_s=100.0)
    for row in found.rows("transfers") if found else []:
        told = f"{row['bytes']} bytes, {row['descriptors']} descriptors"
        say(f"  {decode.launch.name} {row['prompt_tokens']}: {told}")


def together(act: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> None:
    """The same on several serves at once, each in a process of its own: times are no result here."""
    with ProcessPoolExecutor(max(1, len(calls)), mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(act, *call) for call in calls]:
            step("together", done.result)


def batch_admit() -> None:
    """Admission from both pools."""
    with up(["admit-13e9", "admit-40e9"], 8140) as serves:
        memory()
        serves = warm(serves)
        for serve in serves:
            start(serve)
        together(admission, [(serve.seat, PLAN["contexts"]) for serve in serves])


def batch_again() -> None:
    """A cache that was prefilled, alone on the GPU; then second serves of both pools, side by side."""
    with up(["decode-one-prefilled", "start-caching", "admit-13e9", "admit-40e9"], 8150) as serves:
        memory()
        serves = warm(serves)
        for serve in serves:
            start(serve)
        by_name = {serve.launch.name: serve for serve in serves}
        if control := by_name.pop("decode-one-prefilled", None):
            shape = {"context": (1_000, 16_000, 64_000), "mixed": ("64K+3x1K",), **REPLY}
            probe(control, "decode-context", **shape)
            engines.stop(control)
        if cached := by_name.pop("start-caching", None):
            engines.stop(cached)
        together(admission, [(serve.seat, PLAN["contexts"], False) for serve in by_name.values()])


def starts(names: Sequence[str], port: int) -> None:
    """Start-up lines alone."""
    with up(names, port) as serves:
        memory()
        for serve in serves:
            start(serve)


def batch_starts() -> None:
    """Start-up rows that no other batch has."""
    starts(
        ["start-block-16", "start-block-64", "start-caching", "start-bf16", "start-tp4", "start-tp8"], 8160
    )
    starts(
        ["start-12gib", "start-bf16-caching", "start-tp4-bf16", "start-tp8-caching", "start-40e9-caching"],
        8170,
    )


def batch_hand() -> None:
    """A pair over NIXL: bytes per request as its connector counts them. It compiles what later pairs use."""
    pairs(["hand-tp2"], 8200)


def batch_hand_more() -> None:
    """The other pairs side by side, after `hand` has compiled their kernels."""
    pairs(["hand-tp2-bf16", "hand-tp4", "hand-tp4-bf16", "hand-tp2-caching"], 8240)


def batch_caching() -> None:
    """Start-up rows with prefix caching that `starts` was cut short of."""
    starts(["start-bf16-caching", "start-40e9-caching"], 8180)


def batch_hand_two() -> None:
    """Pairs whose decode engine has a GPU of its own: two GPUs of one host."""
    pairs(["hand-tp2", "hand-tp2-bf16"], 8260, decode_on=1)


def pairs(names: Sequence[str], port: int, decode_on: int = 0) -> None:
    """A prefill and a decode engine of each launch; the decode engine's GPU is `decode_on`."""
    wanted = []
    for index, name in enumerate(names):
        wanted += [
            (LAUNCHES[name], port + 2 * index, "kv_producer", 0),
            (LAUNCHES[name], port + 2 * index + 1, "kv_consumer", decode_on),
        ]
    with started(wanted) as serves:
        memory()
        serves = warm(serves)
        for serve in serves:
            start(serve)
        by_launch: dict[str, list[Serve]] = {}
        for serve in serves:
            by_launch.setdefault(serve.launch.name, []).append(serve)
        whole = [pair for pair in by_launch.values() if len(pair) == 2]

        together(hand, [(pair[1].seat, pair[0].url) for pair in whole])


BATCHES = {
    name.removeprefix("batch_").replace("_", "-"): act
    for name, act in list(globals().items())
    if name.startswith("batch_")
}


def main() -> None:
    """Run the batches asked for, in order."""
    global _UNTIL
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("batches", nargs="+", choices=sorted(BATCHES))
    parser.add_argument("--until", type=float, default=1e9, help="seconds after which no step begins")
    chosen = parser.parse_args()
    _UNTIL = chosen.until
    say(f"machine {MACHINE}")
    for name in chosen.batches:
        say(f"batch {name}")
        step(f"batch {name}", BATCHES[name])
    pack()
    logs()


if __name__ == "__main__":
    main()
