"""Small MXFP4 checkpoints, written with the safetensors package and not with our own writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from k3repro.mxfp4 import encode

MXFP4_CONFIG = {
    "quant_method": "compressed-tensors",
    "format": "mxfp4-pack-quantized",
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "group_size": 32}}
    },
    "ignore": ["lm_head", "re:.*self_attn.*"],
}


def expert(name: str, n: int, k: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    if n * k > 1 << 16:  # encoding millions of weights takes longer than the test
        packed = rng.integers(0, 256, (n, k // 2), dtype=np.uint8)
        scales = rng.integers(118, 124, (n, k // 32), dtype=np.uint8)
    else:
        packed, scales = encode(rng.standard_normal((n, k)) * 0.02)
    return {f"{name}.weight_packed": packed, f"{name}.weight_scale": scales}


def write(folder: Path, shards: list[dict[str, np.ndarray]], config: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True)
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):06d}.safetensors"
        save_file(tensors, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
    total = sum(a.nbytes for tensors in shards for a in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(
        json.dumps(
            {"model_type": "kimi_linear", "quantization_config": MXFP4_CONFIG} if config is None else config
        )
    )
    (folder / "tokenizer.json").write_bytes(b'{"a": 1}\n')
    return folder


def checkpoint(folder: Path, shards: int = 3, n: int = 64, k: int = 128, seed: int = 0) -> Path:
    """Two experts a file, one float16 tensor, one float32; one expert's scales lie in the next file."""
    rng = np.random.default_rng(seed)
    parts: list[dict[str, np.ndarray]] = []
    for number in range(shards):
        layer = f"model.layers.{number}"
        parts.append(
            {
                **expert(f"{layer}.block_sparse_moe.experts.0.w1", n, k, rng),
                **expert(f"{layer}.block_sparse_moe.experts.1.w2", n, k, rng),
                f"{layer}.self_attn.q_proj.weight": rng.standard_normal((n, k)).astype(np.float16),
                f"{layer}.input_layernorm.weight": rng.standard_normal(k).astype(np.float32),
            }
        )
    if shards > 1:
        stray = "model.layers.0.block_sparse_moe.experts.0.w1.weight_scale"
        parts[1][stray] = parts[0].pop(stray)
    return write(folder, parts)
