"""The launches of launches.toml: as parameters of the predictions, as a command line, as a model folder."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from k3repro.probes._words import ADJECTIVES, NOUNS, PLACES, VERBS

HERE = Path(__file__).parent
KDA_HEADS = 96
_FULL = [*range(4, 93, 4), 93]
"""Layers of full attention, counted from one: 24 of 93; the other 69 are KDA."""
_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
_VOCABULARY = 2048


@dataclass(frozen=True, slots=True)
class Launch:
    """One engine's configuration; bytes and tokens."""

    name: str
    version: str
    backend: str
    tp: int
    mla_heads: int
    kv_dtype: str
    prefix_caching: bool
    block_size: int
    pool_bytes: int
    max_model_len: int
    max_num_seqs: int
    batch_tokens: int
    graphs: tuple[int, ...]
    fill: bool
    admits: bool
    hands: bool
    splits: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain data: parameters of the predictions, and the `launch` of a serve record."""
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }

    def flags(self, role: str = "") -> list[str]:
        """vLLM's arguments, without model, host and port."""
        found = [
            "--load-format", "dummy", "--kv-cache-dtype", self.kv_dtype, "--block-size", str(self.block_size),
            "--attention-backend", self.backend, "--kv-cache-memory-bytes", str(self.pool_bytes),
            "--gpu-memory-utilization", "0.1", "--max-model-len", str(self.max_model_len),
            "--max-num-seqs", str(self.max_num_seqs), "--max-num-batched-tokens", str(self.batch_tokens),
            "--renderer-num-workers", "8",
            f"--{'' if self.prefix_caching else 'no-'}enable-prefix-caching",
        ]  # fmt: skip
        compiled = {
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": list(self.graphs),
        }
        found += ["--compilation-config", json.dumps(compiled)] if self.graphs else ["--enforce-eager"]
        connector = {"kv_connector": "DecodeBenchConnector", "kv_role": "kv_both"} if self.fill else None
        connector = {"kv_connector": "NixlConnector", "kv_role": role} if role else connector
        return found + (["--kv-transfer-config", json.dumps(connector)] if connector else [])


def load(path: Path = HERE / "launches.toml") -> tuple[dict[str, Launch], dict[str, list[int]]]:
    """Launches by name, and the contexts and prompts that are planned."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    found = {}
    for name, own in document["launch"].items():
        values = document["defaults"] | own
        found[name] = Launch(name=name, **values | {"graphs": tuple(values["graphs"])})
    return found, document["plan"]


def model_config(launch: Launch) -> dict[str, Any]:
    """The configuration of a random model whose cache is one K3 rank's: real layers, narrow projections.

    Layer kinds, KDA heads of 128 with a convolution of 4, and the MLA latent of 512 + 64 are K3's; width,
    experts and vocabulary are small, and the weights mean nothing.
    """
    heads = KDA_HEADS // launch.tp
    kda = [layer for layer in range(1, 94) if layer not in _FULL]
    return {
        "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "dtype": "bfloat16",
        "vocab_size": _VOCABULARY, "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 93,
        "num_attention_heads": launch.mla_heads, "num_key_value_heads": launch.mla_heads, "head_dim": 72,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "kv_lora_rank": 512, "q_lora_rank": None,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_nope": True,
        "num_experts": 8, "num_experts_per_token": 2, "num_shared_experts": 1, "moe_intermediate_size": 256,
        "first_k_dense_replace": 1, "moe_layer_freq": 1, "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid", "routed_scaling_factor": 2.446, "use_grouped_topk": True,
        "num_expert_group": 1, "topk_group": 1, "tie_word_embeddings": False, "model_max_length": 1048576,
        "max_position_embeddings": 1048576, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2,
        "pad_token_id": 0,
        "linear_attn_config": {
            "num_heads": heads, "head_dim": 128, "short_conv_kernel_size": 4,
            "full_attn_layers": _FULL, "kda_layers": kda,
        },
    }  # fmt: skip


def write_model(folder: Path, launch: Launch) -> Path:
    """Configuration and a tokenizer of one token a word, which knows the words of the probes' prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model_config(launch), indent=1))
    words = [word for text in (*ADJECTIVES, *NOUNS, *VERBS, *PLACES) for word in text.split()]
    known = list(
        dict.fromkeys(
            [*_SPECIAL, *words, *(word + "." for word in words), "The", "One", "the", "and", "that"]
        )
    )
    known += [f"w{index}" for index in range(len(known), _VOCABULARY)]
    vocabulary = {word: index for index, word in enumerate(known[:_VOCABULARY])}
    added = [
        {"id": index, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": True} for index, text in enumerate(_SPECIAL)
    ]  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }))  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>",
        "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": 1048576,
    }))  # fmt: skip
    return folder
