"""Checkpoint bytes from headers alone, by component; number formats priced; layouts that hold the model."""

from k3repro.budget._active import Passes, passes_of
from k3repro.budget._buckets import COMPONENTS, Bucket, Bucketer, Inventory
from k3repro.budget._checkpoint import Checkpoint, checkpoint_of_headers, checkpoint_of_model
from k3repro.budget._fixture import write_fixture
from k3repro.budget._header import DTYPES, Header, TensorEntry, header_length, parse_header
from k3repro.budget._inventory import tensors_of
from k3repro.budget._layout import (
    HEAP,
    OVERHEAD,
    Candidate,
    Smallest,
    Weights,
    candidates,
    smallest_pool,
    tensor_parallel_sizes,
    weights_of,
)
from k3repro.budget._price import FORMATS, Format, format_named, parameters_of
from k3repro.budget._read import Index, parse_index, read_headers

__all__ = [
    "COMPONENTS",
    "DTYPES",
    "FORMATS",
    "HEAP",
    "OVERHEAD",
    "Bucket",
    "Bucketer",
    "Candidate",
    "Checkpoint",
    "Format",
    "Header",
    "Index",
    "Inventory",
    "Passes",
    "Smallest",
    "TensorEntry",
    "Weights",
    "candidates",
    "checkpoint_of_headers",
    "checkpoint_of_model",
    "format_named",
    "header_length",
    "parameters_of",
    "parse_header",
    "parse_index",
    "passes_of",
    "read_headers",
    "smallest_pool",
    "tensor_parallel_sizes",
    "tensors_of",
    "weights_of",
    "write_fixture",
]
