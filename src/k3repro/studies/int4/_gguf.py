"""Just enough of GGUF version 3 to read Q4_1 matrices: the real weights of the error study come in this form.

Header: magic, version, tensor count, metadata count; metadata pairs; tensor descriptions; then aligned data.
A Q4_1 block is 32 weights: float16 step d, float16 minimum m, 16 bytes whose low nibbles are elements 0..15
and high nibbles 16..31; weight = d * nibble + m.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
Q4_1 = 3
_Q4_1_BYTES = 20


@dataclass(slots=True)
class _Cursor:
    data: memoryview
    at: int = 0

    def take(self, code: str) -> int | float:
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        number: int | float = value
        return number

    def text(self) -> str:
        size = int(self.take("Q"))
        raw = bytes(self.data[self.at : self.at + size])
        self.at += size
        return raw.decode(errors="replace")

    def value(self, kind: int) -> int | float | str | None:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.take(_SCALARS[kind])
        inner, count = int(self.take("I")), int(self.take("Q"))
        if inner in _SCALARS:
            self.at += struct.calcsize("<" + _SCALARS[inner]) * count
        else:
            for _ in range(count):
                self.value(inner)
        return None


def read_q4_1(data: bytes) -> dict[str, npt.NDArray[np.float32]]:
    """Every Q4_1 matrix of a GGUF file as float32 [rows, columns].

    Raises:
        InputError: not a GGUF version 3 file, or one that ends early.
    """
    try:
        return _read(memoryview(data))
    except (struct.error, KeyError, ValueError) as error:
        raise InputError(f"not a GGUF version 3 file ({error})") from None


def _read(data: memoryview) -> dict[str, npt.NDArray[np.float32]]:
    cursor = _Cursor(data, 4)
    if bytes(data[:4]) != b"GGUF" or cursor.take("I") != 3:
        raise ValueError("magic or version")
    tensors, pairs = int(cursor.take("Q")), int(cursor.take("Q"))
    alignment = 32
    for _ in range(pairs):
        key, kind = cursor.text(), int(cursor.take("I"))
        value = cursor.value(kind)
        if key == "general.alignment":
            alignment = int(value or 32)
    described = [_description(cursor) for _ in range(tensors)]
    start = -(-cursor.at // alignment) * alignment
    return {
        name: _dequantise(data[start + offset :], shape)
        for name, shape, kind, offset in described
        if kind == Q4_1 and len(shape) == 2
    }


def _description(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    name = cursor.text()
    shape = tuple(int(cursor.take("Q")) for _ in range(int(cursor.take("I"))))
    return (
        name,
        shape[::-1],
        int(cursor.take("I")),
        int(cursor.take("Q")),
    )  # the fastest dimension comes first


def _dequantise(data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    count = shape[0] * shape[1] // 32
    raw = np.frombuffer(data[: count * _Q4_1_BYTES], dtype=np.uint8).reshape(count, _Q4_1_BYTES)
    step, least = (np.ascontiguousarray(raw[:, i : i + 2]).view("<f2").astype(np.float32) for i in (0, 2))
    nibbles = np.concatenate([raw[:, 4:] & 0xF, raw[:, 4:] >> 4], axis=1)
    values: npt.NDArray[np.float32] = (nibbles * step + least).reshape(shape).astype(np.float32)
    return values
