"""Number formats priced with their scales, and parameters counted as parameters rather than bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from k3repro.errors import InputError


@dataclass(frozen=True, slots=True)
class Format:
    """How a weight matrix [N, K] is stored: `bits` per element, `scale_bits` per block (zeros included)."""

    name: str
    bits: int
    scale_bits: int = 0
    scale_rows: int = 1
    scale_columns: int = 0

    def bytes_of(self, shape: Sequence[int]) -> int:
        """Exact bytes of a tensor in this format, scales included; blocks run along the last dimension.

        Raises:
            InputError: the shape is not whole in blocks where the format packs blocks.
        """
        *outer, columns = shape
        rows = 1
        for size in outer:
            rows *= size
        bits = rows * columns * self.bits
        if bits % 8:
            raise InputError(f"{list(shape)} does not fill whole bytes in {self.name}")
        return bits // 8 + self.scales_of(rows, columns)

    def scales_of(self, rows: int, columns: int) -> int:
        """Bytes of scales of a [rows, columns] matrix."""
        if not self.scale_columns:
            return 0
        return self.scale_bits * -(-rows // self.scale_rows) * -(-columns // self.scale_columns) // 8

    @property
    def bytes_per_parameter(self) -> float:
        """Asymptotic cost: 0.53125 for MXFP4, 0.5625 for int4 with bf16 scales per 32."""
        scale = self.scale_bits / (self.scale_rows * self.scale_columns) if self.scale_columns else 0.0
        return (self.bits + scale) / 8


_WHOLE = 1 << 40
"""Columns of a scale block that takes in a whole row."""

FORMATS: dict[str, Format] = {
    item.name: item
    for item in (
        Format("f32", 32),
        Format("bf16", 16),
        Format("fp16", 16),
        Format("fp8", 8),
        Format("fp8-channel", 8, 16, 1, _WHOLE),
        Format("fp8-128x128", 8, 32, 128, 128),
        Format("int8", 8),
        Format("int8-channel", 8, 16, 1, _WHOLE),
        Format("mxfp4", 4, 8, 1, 32),
        Format("nvfp4", 4, 8, 1, 16),
        Format("int4-channel", 4, 16, 1, _WHOLE),
        Format("int4-g32-u8", 4, 8, 1, 32),
        Format("int4-g32-bf16", 4, 16, 1, 32),
        Format("int4-g32-f32", 4, 32, 1, 32),
        Format("int4-g128-bf16", 4, 16, 1, 128),
        Format("awq4-g128", 4, 20, 1, 128),
        Format("gptq4-g128", 4, 20, 1, 128),
    )
}
_GROUPED = re.compile(r"int([48])-g(\d{1,5})-bf16|(awq|gptq)([48])-g(\d{1,5})|fp8-(\d{1,4})x(\d{1,4})")


def format_named(name: str) -> Format:
    """A format by name; grouped ones in any group size ("int4-g64-bf16", "gptq8-g128", "fp8-1x128").

    A group of 0 takes in a whole row. AWQ and GPTQ groups have an fp16 scale and a packed zero point.

    Raises:
        InputError: unknown; the message lists the known ones.
    """
    if name in FORMATS:
        return FORMATS[name]
    if (match := _GROUPED.fullmatch(name)) is None:
        fix = f"Known: {', '.join(sorted(FORMATS))}; --headers counts any checkpoint."
        raise InputError(f"unknown weight format {name!r}", fix=fix)
    bits, group, kind, kind_bits, kind_group, rows, columns = match.groups()
    if rows:
        return Format(name, 8, 32, max(1, int(rows)), max(1, int(columns)))
    if kind:
        return Format(name, int(kind_bits), 16 + int(kind_bits), 1, int(kind_group) or _WHOLE)
    return Format(name, int(bits), 16, 1, int(group) or _WHOLE)


# Endings of tensors that scale others and hold no parameter of the model.
_SCALES = (
    "weight_scale", "weight_scale_inv", "weight_scale_2", "_scales", ".scale", ".scales", "input_scale",
    "weight_shape", "weight_zero_point", ".qzeros", "weight_global_scale", "k_scale", "v_scale", "g_idx",
)  # fmt: skip
_PACKED = ("weight_packed", "_blocks", ".qweight")


def parameters_of(name: str, dtype: str, count: int) -> int:
    """Model parameters in a tensor of `count` stored elements: packed bytes hold two, packed words eight.

    Scales, zero points and shapes hold none.
    """
    if name.endswith(_SCALES):
        return 0
    if dtype == "U8" and (name.endswith(_PACKED) or name.endswith(".weight")):
        return 2 * count
    if dtype == "I32" and name.endswith(_PACKED):
        return 8 * count
    return count
