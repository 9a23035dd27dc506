"""Checkpoint bytes from headers alone, by component; number formats priced; layouts that hold the model."""

from k3repro.budget._active import Passes, passes_of
from k3repro.budget._buckets import COMPONENTS, Bucket, Bucketer, Inventory
from k3repro.budget._checkpoint import Checkpoint, checkpoint_of_headers, checkpoint_of_model
from k3repro.budget._fixture import write_fixture
from k3repro.budget._inventory import tensors_of
from k3repro.budget._layout import (
    Candidate,
    Smallest,
    Weights,
    candidate,
    candidates,
    needs_expert_parallel,
    nodes_of,
    smallest_pool,
    tensor_parallel_sizes,
    weights_of,
    weights_of_stages,
)
from k3repro.budget._price import FORMATS, Format, format_named, parameters_of
from k3repro.budget._read import read_headers
from k3repro.budget._terms import HEAP, OVERHEAD, Terms, default_slots, default_step_tokens, terms_of

__all__ = [
    "COMPONENTS",
    "FORMATS",
    "HEAP",
    "OVERHEAD",
    "Bucket",
    "Bucketer",
    "Candidate",
    "Checkpoint",
    "Format",
    "Inventory",
    "Passes",
    "Smallest",
    "Terms",
    "Weights",
    "candidate",
    "candidates",
    "checkpoint_of_headers",
    "checkpoint_of_model",
    "default_slots",
    "default_step_tokens",
    "format_named",
    "needs_expert_parallel",
    "nodes_of",
    "parameters_of",
    "passes_of",
    "read_headers",
    "smallest_pool",
    "tensor_parallel_sizes",
    "tensors_of",
    "terms_of",
    "weights_of",
    "weights_of_stages",
    "write_fixture",
]
