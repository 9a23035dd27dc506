"""What a requantisation will do, worked out from headers and configuration before a byte is converted."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.errors import InputError
from k3repro.mxfp4._format import BLOCK, check_block_shapes
from k3repro.mxfp4._rules import RULES, Rule
from k3repro.mxfp4.checkpoint import (
    CheckpointFiles,
    PlacedHeader,
    ShardReader,
    TensorInfo,
    open_checkpoint,
)
from k3repro.shards import tensor_bytes

CONFIG_NAME = "config.json"
PLAN_VERSION = 2

# packed suffix -> scale suffix: compressed-tensors mxfp4-pack-quantized, gpt-oss
_PAIRS = {".weight_packed": ".weight_scale", "_blocks": "_scales"}
_SCALE_DTYPES = ("U8", "F8_E8M0")


@dataclass(frozen=True, slots=True)
class Conversion:
    """One MXFP4 tensor: where its bytes and scales lie, and its shape [..., N, K] in weights."""

    name: str
    packed: TensorInfo
    scale: TensorInfo
    scale_shard: PlacedHeader
    shape: tuple[int, ...]
    where: str

    def outputs(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """(name, dtype, shape) of what replaces it."""
        *rows, n, k = self.shape
        return [
            (f"{self.name}.weight_packed", "I32", (*rows, n, k // 8)),
            (f"{self.name}.weight_scale", "BF16", (*rows, n, k // BLOCK)),
            (f"{self.name}.weight_shape", "I64", (len(self.shape),)),
        ]


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """One output file: what is converted, what is copied, in the order of the source."""

    header: PlacedHeader
    steps: tuple[Conversion | TensorInfo, ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]

    @property
    def source_bytes(self) -> int:
        """Bytes that the steps read."""
        return sum(
            s.packed.nbytes + s.scale.nbytes if isinstance(s, Conversion) else s.nbytes for s in self.steps
        )

    @property
    def output_bytes(self) -> int:
        return sum(tensor_bytes(dtype, shape) for _, dtype, shape in self.outputs)


@dataclass(frozen=True, slots=True)
class RequantPlan:
    """A whole conversion; `fingerprint` identifies source and settings, so that a resumed run is the same."""

    source: Path
    rule: Rule
    shards: tuple[ShardPlan, ...]
    config: Mapping[str, Any]
    indexed: bool
    fingerprint: str

    @property
    def conversions(self) -> list[Conversion]:
        return [step for shard in self.shards for step in shard.steps if isinstance(step, Conversion)]

    @property
    def source_bytes(self) -> int:
        return sum(shard.source_bytes for shard in self.shards)

    @property
    def output_bytes(self) -> int:
        return sum(shard.output_bytes for shard in self.shards)


def plan_requant(source: Path, rule: Rule = "amax7") -> RequantPlan:
    """Read headers and `config.json` of a checkpoint and decide what becomes of every tensor.

    Raises:
        InputError: no checkpoint, no MXFP4 tensors, a missing or misshapen scale, an unknown rule.
    """
    if rule not in RULES:
        raise InputError(f"{rule!r} is not known", fix=f"Choose one of {', '.join(RULES)}.")
    checkpoint = open_checkpoint(source)
    config = target_config(_read_config(source))
    where = {info.name: (owner, info) for owner, info in checkpoint.tensors()}
    shards = tuple(_plan_shard(where, shard) for shard in checkpoint.shards)
    _check_names(shards)
    if not any(isinstance(step, Conversion) for shard in shards for step in shard.steps):
        raise InputError(
            "no MXFP4 tensors: neither .weight_packed + .weight_scale (U8) nor _blocks + _scales",
            where=str(source),
        )
    fingerprint = _fingerprint(checkpoint, config, rule)
    return RequantPlan(source, rule, shards, config, checkpoint.indexed, fingerprint)


def _check_names(shards: tuple[ShardPlan, ...]) -> None:
    """Two tensors may not become one: a checkpoint could hold the same weights in both layouts."""
    seen: dict[str, str] = {}
    for shard in shards:
        for name, _, _ in shard.outputs:
            if name in seen:
                raise InputError(
                    f"another tensor, in {seen[name]}, would get the name {name}",
                    where=f"{shard.header.path.name}: {name}",
                )
            seen[name] = shard.header.path.name


def _plan_shard(where: Mapping[str, tuple[PlacedHeader, TensorInfo]], shard: PlacedHeader) -> ShardPlan:
    steps: list[Conversion | TensorInfo] = []
    for info in shard.tensors.values():
        found = _conversion(info, shard, where)
        if found is not None:
            steps.append(found)
        elif not _replaced(info, where):
            steps.append(info)
    outputs: list[tuple[str, str, tuple[int, ...]]] = []
    for step in steps:
        kept = isinstance(step, TensorInfo)
        outputs += [(step.name, step.dtype, step.shape)] if kept else step.outputs()  # type: ignore[union-attr]
    return ShardPlan(shard, tuple(steps), tuple(outputs))


def _suffix(info: TensorInfo) -> str | None:
    """The packed suffix of a tensor that holds MXFP4 codes (bytes; int4 words are I32 and stay)."""
    return next((s for s in _PAIRS if info.name.endswith(s) and info.dtype == "U8"), None)


def _conversion(
    info: TensorInfo,
    shard: PlacedHeader,
    where: Mapping[str, tuple[PlacedHeader, TensorInfo]],
) -> Conversion | None:
    suffix = _suffix(info)
    if suffix is None:
        return None
    name = info.name.removesuffix(suffix)
    place = f"{shard.path.name}: {info.name}"
    if name + _PAIRS[suffix] not in where:
        raise InputError(f"its scale tensor {name}{_PAIRS[suffix]} is missing", where=place)
    owner, scale = where[name + _PAIRS[suffix]]
    if scale.dtype not in _SCALE_DTYPES:
        raise InputError(f"its scales are {scale.dtype}, not E8M0 bytes", where=place)
    packed_shape = info.shape
    if suffix == "_blocks":
        if len(info.shape) < 3 or info.shape[-1] != BLOCK // 2:
            raise InputError(f"{list(info.shape)} is not [..., N, K/32, 16]", where=place)
        packed_shape = (*info.shape[:-2], info.shape[-2] * info.shape[-1])
    if len(packed_shape) < 2:
        raise InputError(f"{list(info.shape)} is not a matrix", where=place)
    check_block_shapes(packed_shape, scale.shape, place)
    shape = (*packed_shape[:-1], packed_shape[-1] * 2)
    _check_stored_shape(name, shape, where, place)
    return Conversion(name, info, scale, owner, shape, place)


def _check_stored_shape(
    name: str, shape: tuple[int, ...], where: Mapping[str, tuple[PlacedHeader, TensorInfo]], place: str
) -> None:
    """A stored `weight_shape` must be what the packed bytes hold: an odd K would have been padded."""
    if f"{name}.weight_shape" not in where:
        return
    owner, info = where[f"{name}.weight_shape"]
    if info.dtype not in ("I32", "I64"):
        raise InputError(f"{name}.weight_shape is {info.dtype}, not whole numbers", where=place)
    with ShardReader(owner) as reader:
        stored = reader.read(info.name).view("<i4" if info.dtype == "I32" else "<i8").tolist()
    if stored != list(shape):
        raise InputError(f"{name}.weight_shape says {stored}, the bytes hold {list(shape)}", where=place)


def _replaced(info: TensorInfo, where: Mapping[str, tuple[PlacedHeader, TensorInfo]]) -> bool:
    """Whether this tensor belongs to a converted one: its scales, or a stored shape."""
    for packed, scale in _PAIRS.items():
        for suffix in (scale, ".weight_shape"):
            if info.name.endswith(suffix):
                partner = where.get(info.name.removesuffix(suffix) + packed)
                if partner is not None and _suffix(partner[1]) == packed:
                    return True
    return False


def _read_config(source: Path) -> dict[str, Any]:
    path = source / CONFIG_NAME
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(path)) from None
    except (RecursionError, ValueError) as error:
        raise InputError(f"is not valid JSON ({error})", where=str(path)) from None
    if not isinstance(config, dict):
        raise InputError("is not a JSON object", where=str(path))
    return config


def target_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config.json` with its `quantization_config` (top level or in `text_config`) describing the result.

    Raises:
        InputError: there is no quantization_config to rewrite.
    """
    result = copy.deepcopy(dict(config))
    places = [part for part in (result, result.get("text_config")) if isinstance(part, dict)]
    places = [part for part in places if isinstance(part.get("quantization_config"), dict)]
    if not places:
        raise InputError(
            "holds no quantization_config", where=CONFIG_NAME, fix="Is this an MXFP4 checkpoint?"
        )
    for part in places:
        part["quantization_config"] = _quantization(part["quantization_config"])
    return result


def _quantization(old: Mapping[str, Any]) -> dict[str, Any]:
    groups = old.get("config_groups")
    if groups and not (
        isinstance(groups, dict) and all(isinstance(group, dict) for group in groups.values())
    ):
        raise InputError("quantization_config.config_groups is not an object of groups", where=CONFIG_NAME)
    groups = groups or {"group_0": {"targets": ["Linear"]}}
    name = "pack-quantized"
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": BLOCK}
    return {
        "quant_method": "compressed-tensors",
        "format": name,
        "quantization_status": "compressed",
        "config_groups": {
            group: {
                "targets": value.get("targets", ["Linear"]),
                "weights": {**weights, "dynamic": False},
                "input_activations": None,
                "output_activations": None,
                "format": name,
            }
            for group, value in groups.items()
        },
        "ignore": old.get("ignore") or old.get("modules_to_not_convert") or [],
        "kv_cache_scheme": old.get("kv_cache_scheme"),
    }


def _fingerprint(checkpoint: CheckpointFiles, config: Mapping[str, Any], rule: str) -> str:
    parts: list[Any] = [PLAN_VERSION, rule, config]
    for shard in checkpoint.shards:
        stat = shard.path.stat()
        tensors = [(t.name, t.dtype, t.shape, t.begin) for t in shard.tensors.values()]
        parts.append([shard.path.name, stat.st_size, stat.st_mtime_ns, tensors])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
