"""The short form of the probes against one real engine, or a pair: notebook 17 and `make test-engine`.

``python campaign.py MODEL --artifacts FOLDER [--scratch FOLDER]`` starts the engine, seals, stops it.
MODEL is one of `engines.MODELS`, or ``pair`` for the disaggregated pair of the hybrid.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import engines

from k3repro.capacity import block_law, handoff
from k3repro.probes import Silent, checks, compare_serves, run_probe, seal_start, startup_law
from k3repro.probes.engine_start import engine_of_start, model_of_start
from k3repro.store import Artifact, Store

# Engines, client and whatever else runs share two cores, so the client's timers are late. The verdict
# keeps the limit that was in force; these ladders are functional and say so.
SHARED_CORES_LAG_S = 0.5
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {
        "self-consistency": {"isl": 256, "osl": 32, "prompts": 8, "concurrency": (2, 4, 8)},
        "osl-sweep": {"isl": 2000, "osl": (16, 32, 64, 128), "repeats": 3},
        "envelope": {"isl": 2000, "osl": 32, "concurrency": (1, 4, 16)},
        "latency": {"isl": 2000, "osl": 32, "concurrency": (4,), "requests": 40},
    },
    # A real model on two cores reads slowly: short prompts.
    "smollm2-135m": {
        "needle-gate": {"context": 200, "concurrency": (1, 4, 8), "max_tokens": 24, "form": "primed"},
        "niah-ladder": {
            "context": (200, 500),
            "sweep_context": (),
            "repeats": 3,
            "max_tokens": 24,
            "form": "primed",
        },
        "self-consistency": {"isl": 128, "osl": 16, "prompts": 4, "concurrency": (4,), "batch": "near-tie"},
        "osl-sweep": {"isl": 128, "osl": (8, 16, 32), "repeats": 2},
        "envelope": {"isl": 128, "osl": 16, "concurrency": (1, 4)},
        "latency": {"isl": 128, "osl": 8, "concurrency": (4,), "requests": 20},
    },
}
# What no model needs a shape of its own for.
EVERY: dict[str, dict[str, Any]] = {
    "classes": {"shape": ("short:128/8@4", "long:512/8@2")},
    "saturation": {"shape": ("200/8",), "users": (1, 4)},
    "slots": {"isl": 200, "osl": 8, "concurrency": (1, 4)},
    "ablation": {"isl": 200, "osl": 8, "concurrency": (2,)},
    "capacity-grid": {
        "context": (256, 512), "concurrency": (2, 4), "osl": 16, "poll_s": 1.0, "timeout_s": 120.0,
        "drain_s": 120.0,
    },
    "agentic": {"concurrency": 2, "warmup_s": 5.0, "window_s": 20.0},
}  # fmt: skip
# Behind the router a request at concurrency one takes seconds: two engines poll on two cores.
PAIR: dict[str, dict[str, Any]] = {
    "osl-sweep": {"isl": 256, "osl": (4, 8, 16), "repeats": 1},
    "envelope": {"isl": 256, "osl": 8, "concurrency": (1, 4)},
    "latency": {"isl": 256, "osl": 8, "concurrency": (4,), "requests": 20},
}
_UNGATED = ("self-consistency", "needle-gate", "niah-ladder")


def corpus(scratch: Path) -> str:
    """A few short sessions in the Mooncake format, which any of these models can hold."""
    folder = scratch / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"session_id": f"s{number}", "input_length": 100 + 60 * turn, "output_length": 8, "delay": 200 * turn,
         "hash_ids": []}
        for number in range(8) for turn in range(3)
    ]  # fmt: skip
    (folder / "short.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return str(folder / "short.jsonl")


def scratch_folder() -> Path:
    """Where models and logs go: `$K3REPRO_ENGINE_SCRATCH`, else a folder in the system's temporary one."""
    named = os.environ.get("K3REPRO_ENGINE_SCRATCH")
    return Path(named) if named else Path(tempfile.gettempdir()) / "k3repro-real-engine"


def aggregated(name: str, store: Store, scratch: Path, *, restart: bool = False) -> list[Artifact]:
    """One engine: its start, then the probes; with `restart`, the self-consistency of a second serve too."""
    model, shapes = engines.MODELS[name], SHAPES.get(name, SHAPES["tiny"]) | EVERY
    shapes = shapes | {"agentic": EVERY["agentic"] | {"corpus": corpus(scratch)}}
    found = []
    with engines.served(model, scratch) as serve:
        start = _start(store, serve, name, scratch)
        found += [start, store.derive(startup_law, [start], subject=start.subject)]
        for probe, shape in shapes.items():
            # Random weights recall nothing: no needle gate can pass, speed is marked as taken without one.
            passed = any(artifact.name == "needle-gate" and artifact.verdict["ok"] for artifact in found)
            unsafe = not passed and probe not in _UNGATED
            found.append(_probe(probe, serve.url, name, store, unsafe=unsafe, **shape))
    if restart:
        first = next(artifact for artifact in found if artifact.name == "self-consistency")
        with engines.served(model, scratch) as serve:
            second = _probe("self-consistency", serve.url, name, store, **shapes["self-consistency"])
        found += [second, store.derive(compare_serves, [first, second], subject=first.subject)]
    return found


def disaggregated(store: Store, scratch: Path) -> list[Artifact]:
    """Prefill and decode of the hybrid behind the router; decode is also the engine asked directly."""
    with engines.pair(engines.MODELS["qwen3-next"], scratch) as (prefill, decode, router):
        found = []
        engines_behind = (prefill.url, decode.url)
        for serve, role in ((prefill, "prefill"), (decode, "decode")):
            start = _start(store, serve, f"{serve.model.name}-{role}", scratch)
            found += [start, store.derive(startup_law, [start], subject=start.subject)]
        served, name = f"tiny-{router.model.name}", f"{router.model.name}-pair"
        found.append(_probe(
            "self-consistency", router.url, name, store, behind=engines_behind, model=served,
            isl=256, osl=24, prompts=4, concurrency=(4,),
            direct=decode.url, prefill=prefill.url, decode=decode.url, **_expected(found[-2]),
        ))  # fmt: skip
        for probe, shape in PAIR.items():
            found.append(
                _probe(
                    probe, router.url, name, store, unsafe=True, model=served, behind=engines_behind, **shape
                )
            )
        return found


def _start(store: Store, serve: engines.Serve, name: str, scratch: Path) -> Artifact:
    config = json.loads((scratch / "models" / serve.model.name / "config.json").read_text(encoding="utf-8"))
    launch = {
        "flags": serve.flags(), "pool_bytes": engines.POOL_GIB << 30, "prefix_caching": False,
        "block_size": serve.model.block_size, "kernel_block": serve.model.kernel_block,
    }  # fmt: skip
    return seal_start(
        store, serve.url, lines=serve.startup_lines(), config=config, launch=launch, **_called(name)
    )


def _expected(start: Artifact) -> dict[str, int]:
    """What a request moves from prefill to decode, by the law of the engine that started."""
    law = block_law(model_of_start(start), engine_of_start(start))
    moved = handoff(law, 256)
    return {
        "state_bytes": moved.state_pages * moved.state_bytes,
        "block_bytes": moved.block_bytes,
        "block_tokens": law.block_tokens,
    }


def _called(name: str) -> dict[str, str]:
    """Subjects say engine, version, model and hardware: pipelines/real-cpu.toml declares them."""
    return {"name_as": name, "hardware": "cpu"}


def _probe(probe: str, url: str, name: str, store: Store, *, unsafe: bool = False, **shape: Any) -> Artifact:
    checks.LIMITS["client_lag_s"] = SHARED_CORES_LAG_S
    options = {"target": url, "store": store, "unsafe": unsafe, "progress": Silent()}
    artifact = run_probe(probe, **options, **_called(name), **shape)
    print(
        f"{artifact.name}@{artifact.subject} {artifact.tier} {artifact.seal[:12]} {artifact.verdict}",
        flush=True,
    )
    return artifact


def main() -> None:
    """Run one campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=[*engines.MODELS, "pair"])
    parser.add_argument("--artifacts", type=Path)
    parser.add_argument("--scratch", type=Path, default=scratch_folder())
    parser.add_argument("--restart", action="store_true", help="start the engine a second time and compare")
    chosen = parser.parse_args()
    store = Store(chosen.artifacts)
    if chosen.model == "pair":
        disaggregated(store, chosen.scratch)
    else:
        aggregated(chosen.model, store, chosen.scratch, restart=chosen.restart)


if __name__ == "__main__":
    main()
