"""Parameters a token passes through, and the bytes of weights that a batch of tokens touches.

Issue 10, items 2 and 4. Routing is taken as uniform: of E experts with k choices a batch of n tokens is
expected to touch E (1 - (1 - k/E)^n) a layer; real routing is skewed and touches fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.budget._checkpoint import checkpoint_of_model
from k3repro.budget._price import format_named
from k3repro.errors import InputError
from k3repro.spec import Model

__all__ = ["Passes", "passes_of"]

_KEPT = ("norms", "router", "embeddings", "vision", "indexer")
"""Components that an engine leaves in bf16 when it quantises linear layers while loading."""


@dataclass(frozen=True, slots=True)
class Passes:
    """What a decode step of a model reads and multiplies; parameters and bytes of the whole model.

    `routed` and `shared_path` are bytes: all routed experts, and everything every token passes but the input
    embedding (of which a token reads one row). `matrix` counts parameters a prompt token is multiplied with
    whatever the engine skips: no embedding, no head, no vision tower, and no cost of attention itself.
    """

    parameters: int
    vision: int
    active: int
    active_matrix: int
    matrix: int
    routed_bytes: float
    shared_bytes: float
    experts: int
    top_k: int

    def experts_touched(self, tokens: float) -> float:
        """Expected experts of a layer that `tokens` tokens touch; 0 without experts.

        Raises:
            InputError: fewer than no tokens.
        """
        if tokens < 0:
            raise InputError(f"a batch has no fewer than 0 tokens, not {tokens:g}")
        return self.experts * (1 - (1 - self.top_k / self.experts) ** tokens) if self.experts else 0.0

    def step_bytes(self, tokens: float) -> float:
        """Weight bytes that one step over `tokens` tokens reads once."""
        share = self.experts_touched(tokens) / self.experts if self.experts else 0.0
        return self.shared_bytes + share * self.routed_bytes


def passes_of(model: Model, quantization: str | None = None) -> Passes:
    """Count a model's passes; `quantization` is the format linear layers are converted to while loading.

    Raises:
        SpecError: the spec does not describe this family's tensors far enough.
        InputError: an unknown format.
    """
    parts = checkpoint_of_model(model).inventory.components
    total = sum(part.parameters for part in parts.values())
    vision = parts["vision"].parameters if "vision" in parts else 0
    routed = parts["routed_experts"].parameters
    experts, top_k = (model.moe.experts, model.moe.top_k) if model.moe else (0, 0)
    active = total - vision - routed + (routed * top_k // experts if experts else 0)
    table = model.vocab_size * model.hidden_size
    head = 0 if model.tied_embeddings else table
    sizes = {name: float(part.bytes) for name, part in parts.items()}
    if quantization:
        price = format_named(quantization).bytes_per_parameter
        sizes |= {n: parts[n].parameters * price for n in parts if n not in _KEPT}
    shared = sum(size for name, size in sizes.items() if name not in ("routed_experts", "vision"))
    return Passes(
        total - vision, vision, active, active - table if head else active, active - table - head,
        sizes["routed_experts"], shared - (2.0 * table if head else 0.0), experts, top_k,
    )  # fmt: skip
