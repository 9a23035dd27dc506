"""Shards of a checkpoint: safetensors headers and the index, read strictly; never a byte of weights."""

from k3repro.shards._header import (
    DTYPES,
    HEADER_ONLY,
    ShardHeader,
    TensorEntry,
    header_bytes,
    header_length,
    parse_header,
    read_header,
    tensor_bytes,
)
from k3repro.shards._index import INDEX, SINGLE, Index, IndexCheck, parse_index

__all__ = [
    "DTYPES",
    "HEADER_ONLY",
    "INDEX",
    "SINGLE",
    "Index",
    "IndexCheck",
    "ShardHeader",
    "TensorEntry",
    "header_bytes",
    "header_length",
    "parse_header",
    "parse_index",
    "read_header",
    "tensor_bytes",
]
