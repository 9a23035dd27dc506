"""The tensors of a full-size model from its spec: names, dtypes, shapes, without a byte of data."""

from __future__ import annotations

from collections.abc import Iterator

from k3repro.budget._header import DTYPES, TensorEntry
from k3repro.budget._price import Format, format_named
from k3repro.errors import SpecError
from k3repro.spec import Gqa, Kda, Mla, Model, Moe, Vision

_BF16, _F32 = "BF16", "F32"


def tensors_of(model: Model) -> Iterator[TensorEntry]:
    """All tensors of a checkpoint, in layer order.

    Raises:
        SpecError: the spec does not describe this family's tensors far enough.
    """
    prefix = model.tensor_prefix
    yield _tensor(f"{prefix}embed_tokens.weight", _BF16, model.vocab_size, model.hidden_size)
    for index in range(model.num_layers):
        yield from _layer(model, index, f"{prefix}layers.{index}.")
    yield _tensor(f"{prefix}norm.weight", _BF16, model.hidden_size)
    if model.family == "kimi-k3":
        yield _tensor(f"{prefix}output_attn_res_norm.weight", _BF16, model.hidden_size)
        yield _tensor(f"{prefix}output_attn_res_proj.weight", _BF16, 1, model.hidden_size)
    if not model.tied_embeddings:
        yield _tensor(model.head_name, _BF16, model.vocab_size, model.hidden_size)
    yield from _vision(model)


def _tensor(name: str, dtype: str, *shape: int) -> TensorEntry:
    count = 1
    for size in shape:
        count *= size
    return TensorEntry(name, dtype, shape, count * DTYPES[dtype] // 8)


def _linear(name: str, rows: int, columns: int, form: Format) -> Iterator[TensorEntry]:
    """One weight matrix [rows, columns] as the format stores it."""
    if form.name == "mxfp4":
        yield _tensor(f"{name}.weight_packed", "U8", rows, columns // 2)
        yield _tensor(f"{name}.weight_scale", "U8", rows, columns // 32)
    elif form.name == "int4-g32-bf16":
        yield _tensor(f"{name}.weight_packed", "I32", rows, columns // 8)
        yield _tensor(f"{name}.weight_scale", _BF16, rows, columns // 32)
    elif form.name == "fp8-128x128":
        yield _tensor(f"{name}.weight", "F8_E4M3", rows, columns)
        yield _tensor(f"{name}.weight_scale_inv", _F32, -(-rows // 128), -(-columns // 128))
    elif form.name == "bf16":
        yield _tensor(f"{name}.weight", _BF16, rows, columns)
    else:
        raise SpecError(f"no tensor layout is known for weights stored as {form.name}")


def _layer(model: Model, index: int, prefix: str) -> Iterator[TensorEntry]:
    dense = format_named(model.dense_format)
    for kind in model.layer_kinds[index].split("+"):
        if kind == "kda" and model.kda:
            yield from _kda(model, model.kda, f"{prefix}self_attn.")
        elif kind == "mla" and model.mla:
            yield from _mla(model, model.mla, f"{prefix}self_attn.", dense)
        elif kind in ("gqa", "window") and model.gqa:
            yield from _gqa(model, model.gqa, f"{prefix}self_attn.", dense)
        else:
            raise SpecError(f"no tensor names are known for layers of kind {kind!r}", where=model.name)
    yield _tensor(f"{prefix}input_layernorm.weight", _BF16, model.hidden_size)
    yield _tensor(f"{prefix}post_attention_layernorm.weight", _BF16, model.hidden_size)
    if model.family == "kimi-k3":
        for part in ("self_attn_res", "mlp_res"):
            yield _tensor(f"{prefix}{part}_norm.weight", _BF16, model.hidden_size)
            yield _tensor(f"{prefix}{part}_proj.weight", _BF16, 1, model.hidden_size)
    if model.moe is not None and index >= model.moe.first_dense:
        yield from _moe(model, model.moe, prefix)
    elif model.intermediate_size:
        yield from _mlp(f"{prefix}mlp.", model.hidden_size, model.intermediate_size, dense)
    else:
        raise SpecError("a dense layer needs intermediate_size", where=model.name)


def _mlp(prefix: str, hidden: int, inner: int, form: Format) -> Iterator[TensorEntry]:
    yield from _linear(f"{prefix}gate_proj", inner, hidden, form)
    yield from _linear(f"{prefix}up_proj", inner, hidden, form)
    yield from _linear(f"{prefix}down_proj", hidden, inner, form)


def _kda(model: Model, kda: Kda, prefix: str) -> Iterator[TensorEntry]:
    width, hidden = kda.heads * kda.head_dim, model.hidden_size
    for part in "qkv":
        yield _tensor(f"{prefix}{part}_proj.weight", _BF16, width, hidden)
        yield _tensor(f"{prefix}{part}_conv1d.weight", _BF16, width, 1, kda.taps)
    yield _tensor(f"{prefix}f_a_proj.weight", _BF16, kda.head_dim, hidden)
    yield _tensor(f"{prefix}f_b_proj.weight", _BF16, width, kda.head_dim)
    yield _tensor(f"{prefix}b_proj.weight", _BF16, kda.heads, hidden)
    if kda.full_rank_gate:
        yield _tensor(f"{prefix}g_proj.weight", _BF16, width, hidden)
    else:
        yield _tensor(f"{prefix}g_a_proj.weight", _BF16, kda.head_dim, hidden)
        yield _tensor(f"{prefix}g_b_proj.weight", _BF16, width, kda.head_dim)
    yield _tensor(f"{prefix}A_log", _BF16, kda.a_log or kda.heads)
    yield _tensor(f"{prefix}dt_bias", _BF16, width)
    yield _tensor(f"{prefix}o_norm.weight", _BF16, kda.head_dim)
    yield _tensor(f"{prefix}o_proj.weight", _BF16, hidden, width)


def _mla(model: Model, mla: Mla, prefix: str, form: Format) -> Iterator[TensorEntry]:
    hidden, head = model.hidden_size, mla.nope + mla.rope
    if mla.q_lora:
        yield from _linear(f"{prefix}q_a_proj", mla.q_lora, hidden, form)
        yield _tensor(f"{prefix}q_a_layernorm.weight", _BF16, mla.q_lora)
        yield from _linear(f"{prefix}q_b_proj", mla.heads * head, mla.q_lora, form)
    else:
        yield from _linear(f"{prefix}q_proj", mla.heads * head, hidden, form)
    yield from _linear(f"{prefix}kv_a_proj_with_mqa", mla.kv_lora + mla.rope, hidden, form)
    yield _tensor(f"{prefix}kv_a_layernorm.weight", _BF16, mla.kv_lora)
    yield from _linear(f"{prefix}kv_b_proj", mla.heads * (mla.nope + mla.v), mla.kv_lora, form)
    yield from _linear(f"{prefix}o_proj", hidden, mla.heads * mla.v, form)
    if mla.output_gate:
        yield from _linear(f"{prefix}g_proj", mla.heads * mla.v, hidden, form)
    if model.indexer is not None and mla.q_lora:
        heads, dim = model.indexer.heads, model.indexer.head_dim
        yield from _linear(f"{prefix}indexer.wq_b", heads * dim, mla.q_lora, form)
        yield from _linear(f"{prefix}indexer.wk", dim, hidden, form)
        yield _tensor(f"{prefix}indexer.k_norm.weight", _F32, dim)
        yield _tensor(f"{prefix}indexer.k_norm.bias", _F32, dim)
        yield _tensor(f"{prefix}indexer.weights_proj.weight", _BF16, heads, hidden)


def _gqa(model: Model, gqa: Gqa, prefix: str, form: Format) -> Iterator[TensorEntry]:
    hidden, width, kv = model.hidden_size, gqa.heads * gqa.head_dim, gqa.kv_heads * gqa.head_dim
    for name, rows in (("q", width), ("k", kv), ("v", kv)):
        yield from _linear(f"{prefix}{name}_proj", rows, hidden, form)
        if gqa.qkv_bias or gqa.bias:
            yield _tensor(f"{prefix}{name}_proj.bias", _BF16, rows)
    yield from _linear(f"{prefix}o_proj", hidden, width, form)
    if gqa.bias:
        yield _tensor(f"{prefix}o_proj.bias", _BF16, hidden)
    if gqa.qk_norm:
        yield _tensor(f"{prefix}q_norm.weight", _BF16, gqa.head_dim)
        yield _tensor(f"{prefix}k_norm.weight", _BF16, gqa.head_dim)
    if gqa.sinks:
        yield _tensor(f"{prefix}sinks", _BF16, gqa.heads)


def _moe(model: Model, moe: Moe, prefix: str) -> Iterator[TensorEntry]:
    if moe.style == "fused":
        yield from _fused(model, moe, f"{prefix}mlp.")
        return
    packed = model.family in ("kimi-k3", "kimi-linear")
    block = f"{prefix}{'block_sparse_moe' if packed else 'mlp'}."
    names = ("w1", "w3", "w2") if packed else ("gate_proj", "up_proj", "down_proj")
    width, form = moe.expert_hidden or model.hidden_size, format_named(model.routed_format)
    yield _tensor(f"{block}gate.weight", _BF16, moe.experts, model.hidden_size)
    if model.family != "qwen3":
        yield _tensor(f"{block}gate.e_score_correction_bias", _F32, moe.experts)
    if moe.expert_hidden:
        yield _tensor(f"{block}routed_expert_down_proj.weight", _BF16, width, model.hidden_size)
        yield _tensor(f"{block}routed_expert_up_proj.weight", _BF16, model.hidden_size, width)
        yield _tensor(f"{block}routed_expert_norm.weight", _BF16, width)
    if moe.shared:
        dense = format_named(model.dense_format)
        yield from _mlp(f"{block}shared_experts.", model.hidden_size, moe.shared_intermediate, dense)
    for expert in range(moe.experts):
        stem = f"{block}experts.{expert}."
        yield from _linear(stem + names[0], moe.intermediate, width, form)
        yield from _linear(stem + names[1], moe.intermediate, width, form)
        yield from _linear(stem + names[2], width, moe.intermediate, form)


def _fused(model: Model, moe: Moe, block: str) -> Iterator[TensorEntry]:
    """gpt-oss: all experts of a layer in one tensor, blocks of 32 in 16 bytes, scales apart."""
    hidden, inner = model.hidden_size, moe.intermediate
    yield _tensor(f"{block}router.weight", _BF16, moe.experts, hidden)
    yield _tensor(f"{block}router.bias", _BF16, moe.experts)
    for name, rows, columns in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
        yield _tensor(f"{block}experts.{name}_blocks", "U8", moe.experts, rows, columns // 32, 16)
        yield _tensor(f"{block}experts.{name}_scales", "U8", moe.experts, rows, columns // 32)
        yield _tensor(f"{block}experts.{name}_bias", _BF16, moe.experts, rows)


def _vision(model: Model) -> Iterator[TensorEntry]:
    vision = model.vision
    if vision is None:
        return
    if vision.style == "qwen3-vl":
        yield from _qwen_vision(vision, model.hidden_size)
        return
    hidden, tower = vision.hidden, "vision_tower."
    yield _tensor(f"{tower}patch_embed.proj.weight", _BF16, hidden, 3, vision.patch, vision.patch)
    yield _tensor(f"{tower}patch_embed.pos_emb.weight", _BF16, vision.grid, vision.grid, hidden)
    for index in range(vision.layers):
        block = f"{tower}encoder.blocks.{index}."
        yield _tensor(f"{block}norm0.weight", _BF16, hidden)
        yield _tensor(f"{block}norm1.weight", _BF16, hidden)
        yield _tensor(f"{block}wqkv.weight", _BF16, 3 * vision.qkv_width, hidden)
        yield _tensor(f"{block}wo.weight", _BF16, hidden, vision.qkv_width)
        yield _tensor(f"{block}mlp.fc0.weight", _BF16, vision.intermediate, hidden)
        yield _tensor(f"{block}mlp.fc1.weight", _BF16, hidden, vision.intermediate)
    yield _tensor(f"{tower}encoder.final_layernorm.weight", _BF16, hidden)
    yield _tensor("mm_projector.linear_1.weight", _BF16, vision.projector_hidden, vision.projector_hidden)
    yield _tensor("mm_projector.linear_2.weight", _BF16, model.hidden_size, vision.projector_hidden)
    yield _tensor("mm_projector.norm.weight", _BF16, model.hidden_size)


def _qwen_vision(vision: Vision, text_width: int) -> Iterator[TensorEntry]:
    """Qwen3-VL: biased linear layers, one merger at the end and one per deep-stacked layer."""
    hidden, tower = vision.hidden, "model.visual."
    patch = (hidden, 3, vision.frames, vision.patch, vision.patch)
    yield from _biased(f"{tower}patch_embed.proj", *patch)
    yield _tensor(f"{tower}pos_embed.weight", _BF16, vision.grid * vision.grid, hidden)
    for index in range(vision.layers):
        block = f"{tower}blocks.{index}."
        yield from _biased(f"{block}norm1", hidden)
        yield from _biased(f"{block}norm2", hidden)
        yield from _biased(f"{block}attn.qkv", 3 * vision.qkv_width, hidden)
        yield from _biased(f"{block}attn.proj", hidden, vision.qkv_width)
        yield from _biased(f"{block}mlp.linear_fc1", vision.intermediate, hidden)
        yield from _biased(f"{block}mlp.linear_fc2", hidden, vision.intermediate)
    joined = hidden * vision.merge * vision.merge
    for index in range(vision.mergers):
        last = index == 0
        stem = f"{tower}merger." if last else f"{tower}deepstack_merger_list.{index - 1}."
        yield from _biased(f"{stem}norm", hidden if last else joined)
        yield from _biased(f"{stem}linear_fc1", joined, joined)
        yield from _biased(f"{stem}linear_fc2", text_width, joined)


def _biased(name: str, rows: int, *columns: int) -> Iterator[TensorEntry]:
    yield _tensor(f"{name}.weight", _BF16, rows, *columns)
    yield _tensor(f"{name}.bias", _BF16, rows)
