"""The tensors of a full-size model from its spec: names, dtypes, shapes, without a byte of data."""

from __future__ import annotations

import math
from collections.abc import Iterator

from k3repro.budget._price import Format, format_named
from k3repro.errors import SpecError
from k3repro.shards import DTYPES, TensorEntry
from k3repro.spec import Gdn, Gqa, Kda, Mamba2, Mla, Model, Moe, Vision

_BF16, _F32 = "BF16", "F32"
_NAMES = {"packed": ("w1", "w3", "w2"), "mlp": ("gate_proj", "up_proj", "down_proj")}


def tensors_of(model: Model, *, one_expert: bool = False) -> Iterator[TensorEntry]:
    """All tensors of a checkpoint, in layer order; with `one_expert` only the first routed expert of a layer,
    whose others have the same dtypes and shapes.

    Raises:
        InputError: weights stored in a format that is not known.
        SpecError: the spec does not describe this family's tensors far enough.
    """
    entries = _all(model, one_expert)
    if model.plain_format != "f32":
        return entries
    return (e._replace(dtype=_F32, nbytes=2 * e.nbytes) if e.dtype == _BF16 else e for e in entries)


def _all(model: Model, one_expert: bool) -> Iterator[TensorEntry]:
    prefix = model.tensor_prefix
    yield _tensor(f"{prefix}embed_tokens.weight", _BF16, model.vocab_size, model.hidden_size)
    for index in range(model.num_layers):
        yield from _layer(model, index, f"{prefix}layers.{index}.", one_expert)
    yield _tensor(f"{prefix}norm.weight", _BF16, model.hidden_size)
    if model.family == "kimi-k3":
        yield _tensor(f"{prefix}output_attn_res_norm.weight", _BF16, model.hidden_size)
        yield _tensor(f"{prefix}output_attn_res_proj.weight", _BF16, 1, model.hidden_size)
    if not model.tied_embeddings:
        yield _tensor(model.head_name, _BF16, model.vocab_size, model.hidden_size)
    yield from _vision(model)


def _tensor(name: str, dtype: str, *shape: int) -> TensorEntry:
    return TensorEntry(name, dtype, shape, math.prod(shape) * DTYPES[dtype] // 8)


def _linear(
    model: Model, name: str, rows: int, columns: int, *, routed: bool = False
) -> Iterator[TensorEntry]:
    """One weight matrix [rows, columns] as the checkpoint stores it."""
    form = format_named(model.format_of(name, routed=routed))
    kind, _, group = form.name.partition("-g")
    if form.name in ("bf16", "fp16", "f32"):
        yield _tensor(f"{name}.weight", _BF16, rows, columns)
    elif kind.startswith(("awq", "gptq")):
        yield from _by_groups(name, rows, columns, form, by_row=kind.startswith("awq"))
    elif form.name in ("mxfp4", "nvfp4"):
        yield _tensor(f"{name}.weight_packed", "U8", rows, columns // 2)
        scale = "U8" if form.name == "mxfp4" else "F8_E4M3"
        yield _tensor(f"{name}.weight_scale", scale, rows, columns // form.scale_columns)
        if form.name == "nvfp4":
            yield _tensor(f"{name}.weight_global_scale", _F32, 1)
    elif kind.startswith("int") and group:
        yield _tensor(f"{name}.weight_packed", "I32", rows, columns * form.bits // 32)
        yield _tensor(f"{name}.weight_scale", _BF16, rows, -(-columns // form.scale_columns))
    elif form.name in ("int8-channel", "fp8-channel"):
        yield _tensor(f"{name}.weight", "I8" if kind.startswith("int") else "F8_E4M3", rows, columns)
        yield _tensor(f"{name}.weight_scale", _BF16, rows, 1)
    elif form.name == "fp8":
        yield _tensor(f"{name}.weight", "F8_E4M3", rows, columns)
        yield _tensor(f"{name}.weight_scale", _F32, 1)
    elif form.name.startswith("fp8-"):
        yield _tensor(f"{name}.weight", "F8_E4M3", rows, columns)
        blocks = -(-rows // form.scale_rows), -(-columns // form.scale_columns)
        yield _tensor(f"{name}.weight_scale_inv", _F32, *blocks)
    else:
        raise SpecError(f"no tensor layout is known for weights stored as {form.name}")


def _by_groups(name: str, rows: int, columns: int, form: Format, *, by_row: bool) -> Iterator[TensorEntry]:
    """AWQ packs output channels, GPTQ input channels; both keep scales and packed zero points per group."""
    packed = 32 // form.bits
    groups = -(-columns // form.scale_columns)
    shape = (columns, rows // packed) if by_row else (columns // packed, rows)
    yield _tensor(f"{name}.qweight", "I32", *shape)
    yield _tensor(f"{name}.qzeros", "I32", groups, rows // packed)
    yield _tensor(f"{name}.scales", "F16", groups, rows)
    if not by_row:
        yield _tensor(f"{name}.g_idx", "I32", columns)


def _layer(model: Model, index: int, prefix: str, one_expert: bool) -> Iterator[TensorEntry]:
    hidden = model.hidden_size
    for kind in model.layer_kinds[index].split("+"):
        yield from _mixer(model, kind, prefix)
    for number in range(model.layer_norms):
        name = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm")
        yield _tensor(f"{prefix}{(*name, 'post_feedforward_layernorm')[number]}.weight", _BF16, hidden)
    if model.family == "kimi-k3":
        for part in ("self_attn_res", "mlp_res"):
            yield _tensor(f"{prefix}{part}_norm.weight", _BF16, hidden)
            yield _tensor(f"{prefix}{part}_proj.weight", _BF16, 1, hidden)
    beside = model.mlp_kind(index)
    if beside == "moe" and model.moe is not None:
        yield from _moe(model, model.moe, prefix, one_expert)
    elif beside == "dense":
        if not model.intermediate_size:
            raise SpecError("a dense layer needs intermediate_size", where=model.name)
        yield from _mlp(model, f"{prefix}mlp.", model.intermediate_size, model.mlp_matrices)


def _mixer(model: Model, kind: str, prefix: str) -> Iterator[TensorEntry]:
    if kind == "kda" and model.kda:
        yield from _kda(model, model.kda, f"{prefix}self_attn.")
    elif kind == "mla" and model.mla:
        yield from _mla(model, model.mla, f"{prefix}self_attn.")
    elif kind in ("gqa", "window") and model.gqa:
        yield from _gqa(model, model.gqa, f"{prefix}self_attn.")
    elif kind == "gdn" and model.gdn:
        yield from _gdn(model, model.gdn, f"{prefix}linear_attn.")
    elif kind == "mamba2" and model.mamba2:
        yield from _mamba2(model, model.mamba2, f"{prefix}mamba.")
    elif kind != "none":
        raise SpecError(f"no tensor names are known for layers of kind {kind!r}", where=model.name)


def _mlp(
    model: Model, prefix: str, inner: int, matrices: int = 3, *, hidden: int = 0, routed: bool = False,
    names: tuple[str, str, str] = _NAMES["mlp"],
) -> Iterator[TensorEntry]:  # fmt: skip
    """Gate, up and down projections; without a gate where there are two matrices."""
    hidden = hidden or model.hidden_size
    for name in names[3 - matrices : 2]:
        yield from _linear(model, prefix + name, inner, hidden, routed=routed)
    yield from _linear(model, prefix + names[2], hidden, inner, routed=routed)


def _gdn(model: Model, gdn: Gdn, prefix: str) -> Iterator[TensorEntry]:
    """Gated DeltaNet: queries, keys, values and output gate from one input, two rates per value head."""
    keys, values, hidden = gdn.k_heads * gdn.k_dim, gdn.v_heads * gdn.v_dim, model.hidden_size
    yield from _linear(model, f"{prefix}in_proj_qkvz", 2 * keys + 2 * values, hidden)
    yield _tensor(f"{prefix}in_proj_ba.weight", _BF16, 2 * gdn.v_heads, hidden)
    yield _tensor(f"{prefix}conv1d.weight", _BF16, 2 * keys + values, 1, gdn.taps)
    yield _tensor(f"{prefix}dt_bias", _BF16, gdn.v_heads)
    yield _tensor(f"{prefix}A_log", _BF16, gdn.v_heads)
    yield _tensor(f"{prefix}norm.weight", _BF16, gdn.v_dim)
    yield from _linear(model, f"{prefix}out_proj", hidden, values)


def _mamba2(model: Model, mamba: Mamba2, prefix: str) -> Iterator[TensorEntry]:
    inner, hidden = mamba.heads * mamba.head_dim, model.hidden_size
    channels = inner + 2 * mamba.groups * mamba.state
    yield from _linear(model, f"{prefix}in_proj", inner + channels + mamba.heads, hidden)
    yield _tensor(f"{prefix}conv1d.weight", _BF16, channels, 1, mamba.taps)
    yield _tensor(f"{prefix}conv1d.bias", _BF16, channels)
    for name in ("A_log", "D", "dt_bias"):
        yield _tensor(prefix + name, _BF16, mamba.heads)
    if mamba.norm:
        yield _tensor(f"{prefix}norm.weight", _BF16, inner)
    yield from _linear(model, f"{prefix}out_proj", hidden, inner)


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


def _mla(model: Model, mla: Mla, prefix: str) -> Iterator[TensorEntry]:
    hidden, head = model.hidden_size, mla.nope + mla.rope
    if mla.q_lora:
        yield from _linear(model, f"{prefix}q_a_proj", mla.q_lora, hidden)
        yield _tensor(f"{prefix}q_a_layernorm.weight", _BF16, mla.q_lora)
        yield from _linear(model, f"{prefix}q_b_proj", mla.heads * head, mla.q_lora)
    else:
        yield from _linear(model, f"{prefix}q_proj", mla.heads * head, hidden)
    yield from _linear(model, f"{prefix}kv_a_proj_with_mqa", mla.kv_lora + mla.rope, hidden)
    yield _tensor(f"{prefix}kv_a_layernorm.weight", _BF16, mla.kv_lora)
    yield from _linear(model, f"{prefix}kv_b_proj", mla.heads * (mla.nope + mla.v), mla.kv_lora)
    yield from _linear(model, f"{prefix}o_proj", hidden, mla.heads * mla.v)
    if mla.output_gate:
        yield from _linear(model, f"{prefix}g_proj", mla.heads * mla.v, hidden)
    if model.indexer is not None and mla.q_lora:
        heads, dim = model.indexer.heads, model.indexer.head_dim
        yield from _linear(model, f"{prefix}indexer.wq_b", heads * dim, mla.q_lora)
        yield from _linear(model, f"{prefix}indexer.wk", dim, hidden)
        yield _tensor(f"{prefix}indexer.k_norm.weight", _F32, dim)
        yield _tensor(f"{prefix}indexer.k_norm.bias", _F32, dim)
        yield _tensor(f"{prefix}indexer.weights_proj.weight", _BF16, heads, hidden)


def _gqa(model: Model, gqa: Gqa, prefix: str) -> Iterator[TensorEntry]:
    hidden, width, kv = model.hidden_size, gqa.heads * gqa.head_dim, gqa.kv_heads * gqa.head_dim
    for name, rows in (("q", width * (2 if gqa.output_gate else 1)), ("k", kv), ("v", kv)):
        yield from _linear(model, f"{prefix}{name}_proj", rows, hidden)
        if gqa.qkv_bias or gqa.bias:
            yield _tensor(f"{prefix}{name}_proj.bias", _BF16, rows)
    yield from _linear(model, f"{prefix}o_proj", hidden, width)
    if gqa.bias:
        yield _tensor(f"{prefix}o_proj.bias", _BF16, hidden)
    if gqa.qk_norm or gqa.qk_norm_whole:
        yield _tensor(f"{prefix}q_norm.weight", _BF16, width if gqa.qk_norm_whole else gqa.head_dim)
        yield _tensor(f"{prefix}k_norm.weight", _BF16, kv if gqa.qk_norm_whole else gqa.head_dim)
    if gqa.sinks:
        yield _tensor(f"{prefix}sinks", _BF16, gqa.heads)


def _moe(model: Model, moe: Moe, prefix: str, one_expert: bool) -> Iterator[TensorEntry]:
    if moe.style == "fused":
        yield from _fused(model, moe, f"{prefix}mlp.")
        return
    packed = moe.style == "packed" or model.family in ("kimi-k3", "kimi-linear")
    block = f"{prefix}{'block_sparse_moe' if packed else 'mlp'}."
    hidden, width = model.hidden_size, moe.expert_hidden or model.hidden_size
    yield _tensor(f"{block}gate.weight", _BF16, moe.experts, hidden)
    if moe.correction_bias:
        yield _tensor(f"{block}gate.e_score_correction_bias", _F32, moe.experts)
    if moe.expert_hidden:
        yield _tensor(f"{block}routed_expert_down_proj.weight", _BF16, width, hidden)
        yield _tensor(f"{block}routed_expert_up_proj.weight", _BF16, hidden, width)
        if model.family == "kimi-k3":
            yield _tensor(f"{block}routed_expert_norm.weight", _BF16, width)
    if moe.shared:
        yield from _mlp(model, f"{block}shared_experts.", moe.shared_intermediate, moe.matrices)
    if moe.shared_gate:
        yield _tensor(f"{block}shared_expert_gate.weight", _BF16, 1, hidden)
    names = _NAMES["packed" if packed else "mlp"]
    for expert in range(1 if one_expert else moe.experts):
        stem = f"{block}experts.{expert}."
        yield from _mlp(model, stem, moe.intermediate, moe.matrices, hidden=width, routed=True, names=names)


def _fused(model: Model, moe: Moe, block: str) -> Iterator[TensorEntry]:
    """gpt-oss: all experts of a layer in one tensor; MXFP4 in blocks of 32 in 16 bytes, scales apart."""
    hidden, inner = model.hidden_size, moe.intermediate
    yield _tensor(f"{block}router.weight", _BF16, moe.experts, hidden)
    yield _tensor(f"{block}router.bias", _BF16, moe.experts)
    for name, rows, columns in (("gate_up_proj", 2 * inner, hidden), ("down_proj", hidden, inner)):
        if model.format_of(f"{block}experts.{name}", routed=True) == "mxfp4":
            yield _tensor(f"{block}experts.{name}_blocks", "U8", moe.experts, rows, columns // 32, 16)
            yield _tensor(f"{block}experts.{name}_scales", "U8", moe.experts, rows, columns // 32)
        else:
            yield _tensor(f"{block}experts.{name}", _BF16, moe.experts, columns, rows)
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
