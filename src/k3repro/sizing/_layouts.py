"""TP x DP -> EP layouts of a pool that memory allows, beside the one whose speed was calibrated."""

from __future__ import annotations

from functools import cache
from typing import Any

from k3repro.budget import candidates, checkpoint_of_model, weights_of
from k3repro.sizing._candidate import layout_of
from k3repro.spec import load_model, load_platform
from k3repro.twin import platform

__all__ = ["other_layouts"]

_MOST_NODES_A_POOL = 4


@cache
def other_layouts(name: str) -> list[dict[str, Any]]:
    """Layouts that fit; only the published one has a calibrated speed, of the others it is unknown."""
    layout, spec = layout_of(name), platform(name)
    model, gpu = load_model(layout.model), load_platform(layout.platform)
    weights = weights_of(checkpoint_of_model(model).inventory, model, platform=gpu)
    found = []
    for nodes in range(1, _MOST_NODES_A_POOL + 1):
        for one in candidates(model, weights, gpu, nodes, heap=spec.heap_bytes):
            if one.verdict == "impossible":
                continue
            same = (one.nodes, one.tp, one.dp) == (layout.decode_nodes, layout.tp, layout.dp)
            found.append(
                {
                    "nodes_per_pool": one.nodes, "tp": one.tp, "dp": one.dp, "ep": one.ep,
                    "memory": one.verdict, "kv_bytes_per_gpu_at_least": one.headroom_low,
                    "speed": "calibrated" if same else "unknown",
                }
            )  # fmt: skip
    return found
