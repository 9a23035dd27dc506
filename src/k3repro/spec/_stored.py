"""How a checkpoint stores its weights: `quantization_config` of a Hub config as patterns and format names.

Read from the public schemas of compressed-tensors, fp8, mxfp4 (gpt-oss), AWQ, GPTQ, modelopt and Quark.
Format names are those of `k3repro.budget`; a method that is not modelled becomes a name it refuses.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PLAIN = {"bfloat16": "bf16", "float16": "fp16", "float32": "f32"}

_IGNORED = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules", "exclude")
_CLASSES = {"Linear", "FusedMoE", "MoEGMM"}


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Format names: `plain` of what is not quantised, `linear` of linear layers, `routed` of routed experts.

    `rules` are (pattern, format) pairs that come first; `kv_dtype` is the cache's own dtype.
    """

    plain: str = "bf16"
    linear: str = "bf16"
    routed: str = "bf16"
    rules: tuple[tuple[str, str], ...] = ()
    kv_dtype: str | None = None


def stored_as(config: Mapping[str, Any], text: Mapping[str, Any]) -> StoredAs:
    """The formats a config states; without `quantization_config` all weights are in the model's dtype."""
    dtype = next((d for c in (text, config) for d in (c.get("dtype"), c.get("torch_dtype")) if d), "bfloat16")
    plain = PLAIN.get(str(dtype).removeprefix("torch."), "bf16")
    scheme = config.get("quantization_config") or text.get("quantization_config")
    if not isinstance(scheme, Mapping):
        return StoredAs(plain, plain, plain)
    method = str(scheme.get("quant_method", scheme.get("quant_algo", ""))).lower()
    kept = tuple((str(entry), plain) for entry in _entries(scheme))
    kv = _kv_dtype(scheme)
    if method == "mxfp4":
        return StoredAs(plain, plain, "mxfp4", (), kv)
    if method in ("compressed-tensors", "compressed_tensors") or scheme.get("config_groups"):
        rules, linear = _groups(scheme.get("config_groups") or {}, plain)
        return StoredAs(plain, linear, linear, kept + rules, kv)
    form = _by_method(method, scheme)
    return StoredAs(plain, form, form, kept, kv)


def _entries(scheme: Mapping[str, Any]) -> Iterable[Any]:
    quantization = scheme.get("quantization")
    for source in (scheme, quantization if isinstance(quantization, Mapping) else {}):
        for name in _IGNORED:
            yield from source.get(name) or ()


def _kv_dtype(scheme: Mapping[str, Any]) -> str | None:
    cache, algorithm = scheme.get("kv_cache_scheme"), str(scheme.get("kv_cache_quant_algo") or "")
    wide = isinstance(cache, Mapping) and cache.get("num_bits") == 8 and cache.get("type") == "float"
    return "fp8" if wide or algorithm.upper() == "FP8" else None


def _groups(groups: Mapping[str, Any], plain: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Patterns of groups that name modules, and the format of the group that names all linear layers."""
    rules: list[tuple[str, str]] = []
    linear = plain
    for group in groups.values():
        form = _weights(group.get("weights") or {}, str(group.get("format") or ""), plain)
        targets = [str(target) for target in group.get("targets") or ["Linear"]]
        if set(targets) & _CLASSES:
            linear = form
        rules += [(target, form) for target in targets if target not in _CLASSES]
    return tuple(rules), linear


def _weights(weights: Mapping[str, Any], layout: str, plain: str) -> str:
    if not weights:
        return plain
    bits, kind, group = weights.get("num_bits"), weights.get("type", "int"), weights.get("group_size")
    block = weights.get("block_structure")
    if kind == "float" and bits == 8:
        if isinstance(block, (list, tuple)) and len(block) == 2:
            return f"fp8-{block[0]}x{block[1]}"
        return "fp8" if weights.get("strategy") == "tensor" else "fp8-channel"
    if kind == "float" and bits == 4:
        return "mxfp4" if group == 32 or "mxfp4" in layout else "nvfp4"
    if group and int(group) > 0:
        return f"int{bits}-g{group}-bf16"
    return f"int{bits}-channel"


def _by_method(method: str, scheme: Mapping[str, Any]) -> str:
    bits, group = (
        scheme.get("bits", scheme.get("w_bit", 4)),
        scheme.get("group_size", scheme.get("q_group_size")),
    )
    if method in ("fp8", "fbgemm_fp8"):
        block = scheme.get("weight_block_size")
        if isinstance(block, (list, tuple)) and len(block) == 2:
            return f"fp8-{block[0]}x{block[1]}"
        return "fp8-channel" if method == "fbgemm_fp8" else "fp8"
    if method in ("awq", "gptq", "awq_marlin", "gptq_marlin"):
        return f"{method[:4].rstrip('_')}{bits}-g{group if group and int(group) > 0 else 0}"
    if method in ("auto-round", "auto_round", "intel/auto-round"):
        packing = "awq" if "awq" in str(scheme.get("packing_format", "")) else "gptq"
        return f"{packing}{bits}-g{group or 128}"
    algorithm = str(scheme.get("quant_algo") or _nested(scheme).get("quant_algo") or "").upper()
    if method.startswith("modelopt") or algorithm:
        return {"FP8": "fp8", "NVFP4": "nvfp4", "MXFP4": "mxfp4"}.get(algorithm, f"{method}:{algorithm}")
    if method == "quark":
        return _quark((scheme.get("global_quant_config") or {}).get("weight") or {})
    return method or "unnamed method"


def _nested(scheme: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = scheme.get("quantization")
    return nested if isinstance(nested, Mapping) else {}


def _quark(weight: Any) -> str:
    weight = weight[0] if isinstance(weight, list) and weight else weight
    dtype, group = str(weight.get("dtype", "")), weight.get("group_size")
    if dtype == "fp4" and group == 32:
        return "mxfp4"
    if dtype.startswith("fp8"):
        return "fp8" if weight.get("qscheme") == "per_tensor" else "fp8-channel"
    return f"quark:{dtype}"


def matches(pattern: str, module: str) -> bool:
    """Whether a pattern of a quantisation config ("re:" and a regex, a glob, a name or part of one) fits."""
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    if "*" in pattern:
        return any(fnmatch.fnmatchcase(module, glob) for glob in (pattern, f"{pattern}.*", f"{pattern}*"))
    return f".{pattern}." in f".{module}."
