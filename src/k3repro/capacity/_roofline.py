"""Roofline of one engine: what a rate needs of the hardware, and the rate it allows. Nothing is fitted.

Issue 10, items 4 and 5. A token is multiplied with every matrix it passes (two operations a parameter; the
cost of attention itself is left out, so needs are lower bounds). A decode step reads the weights its batch
touches once and the keys and values of every sequence in flight.
"""

from __future__ import annotations

from dataclasses import dataclass

from k3repro.budget import Passes, format_named, passes_of
from k3repro.capacity._engine import engine_of
from k3repro.capacity._law import Law
from k3repro.capacity._request import token_bytes
from k3repro.capacity._tree import Tree
from k3repro.errors import InputError
from k3repro.spec import Layout, Model, Platform

__all__ = ["ROOFLINES", "Serving", "bound_law", "serving_of"]

ROOFLINES = ("overlap", "serial")
"""How prompt work and reply steps share time: one hides the other wholly, or they take turns."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A model as laid out on GPUs: FLOP/s and bytes/s of all GPUs together, KV bytes a token over all GPUs.

    `compute` is the number format the peak is of; `head` counts parameters that only reply tokens pass.
    """

    layout: str
    passes: Passes
    gpus: int
    compute: str
    flops: float
    bytes_per_s: float
    kv_bytes: float

    @property
    def head(self) -> int:
        """Parameters of the output head."""
        return self.passes.active_matrix - self.passes.matrix

    def flops_of(self, total_rate: float) -> float:
        """Dense FLOP/s that `total_rate` tokens/s need at least, when every token is computed."""
        return 2.0 * self.passes.matrix * total_rate

    def bytes_of(self, output_rate: float, in_flight: float, context: float) -> float:
        """HBM bytes/s of the steps that give `in_flight` sequences `output_rate` tokens/s together.

        Raises:
            InputError: no sequence in flight.
        """
        if in_flight <= 0:
            raise InputError("a rate needs at least one sequence in flight")
        steps = output_rate / in_flight
        return steps * (self.passes.step_bytes(in_flight) + in_flight * context * self.kv_bytes)


def serving_of(model: Model, layout: Layout, platform: Platform) -> Serving:
    """The roofline's constants of a layout.

    Raises:
        InputError: the layout is of another model or platform, or uses more GPUs than its nodes have.
    """
    if (layout.model, layout.platform) != (model.name, platform.name):
        raise InputError(
            f"{layout.name} lays out {layout.model} on {layout.platform}, not {model.name} on {platform.name}"
        )
    if layout.gpus > layout.decode_nodes * platform.gpus_per_node:
        raise InputError(f"{layout.name} uses {layout.gpus} GPUs, its nodes have fewer")
    compute = _compute_format(model, layout)
    peak = platform.fp8_flops if compute == "fp8" else platform.bf16_flops
    kv = token_bytes(model, engine_of(layout)) * layout.gpus
    passes = passes_of(model, layout.quantization)
    return Serving(
        layout.name, passes, layout.gpus, compute, peak * layout.gpus,
        platform.hbm_bytes_per_s * layout.gpus, float(kv),
    )  # fmt: skip


def _compute_format(model: Model, layout: Layout) -> str:
    """fp8 when weights and activations are; formats that only store weights multiply in bf16."""
    form = format_named(layout.quantization or model.dense_format)
    return "fp8" if form.name.startswith("fp8") else "bf16"


def bound_law(serving: Serving, kind: str = "overlap") -> Law:
    """Total tokens/s that the hardware allows, in the variables in_flight, isl and osl (tokens).

    "overlap" is an upper bound: the larger of compute and memory time counts. "serial" lets prompts and reply
    steps take turns. Neither holds a fitted constant.

    Raises:
        InputError: another kind.
    """
    if kind not in ROOFLINES:
        raise InputError(f"no roofline called {kind!r}", fix=f"Known: {', '.join(ROOFLINES)}.")
    isl, osl = ["var", "isl"], ["var", "osl"]
    prompt, reply, memory = _prompt_s(serving), _reply_s(serving), _memory_s(serving)
    seconds: Tree = (
        ["max", ["+", prompt, reply], memory] if kind == "overlap" else ["+", prompt, ["max", reply, memory]]
    )
    return Law(
        f"roofline, {kind}", ["/", ["+", isl, osl], seconds], "tokens/s",
        inputs={"layout": serving.layout, "compute": serving.compute, "gpus": serving.gpus, "fitted": []},
        range={"in_flight": (1, 1e6), "isl": (1, 1e7), "osl": (1, 1e7)},
        error={"kind": "nothing fitted"},
    )  # fmt: skip


def _prompt_s(serving: Serving) -> Tree:
    return ["/", ["*", 2.0 * serving.passes.matrix, ["var", "isl"]], serving.flops]


def _reply_s(serving: Serving) -> Tree:
    return ["/", ["*", 2.0 * serving.passes.active_matrix, ["var", "osl"]], serving.flops]


def _memory_s(serving: Serving) -> Tree:
    """Seconds of memory traffic a request pays for its steps, shared with all in flight."""
    passes, flight = serving.passes, ["var", "in_flight"]
    weights: Tree = passes.shared_bytes + passes.routed_bytes
    if passes.experts:
        missed = ["pow", 1 - passes.top_k / passes.experts, flight]
        weights = ["+", passes.shared_bytes, ["*", passes.routed_bytes, ["-", 1, missed]]]
    context = ["+", ["var", "isl"], ["/", ["var", "osl"], 2]]
    keys = ["*", flight, context, serving.kv_bytes]
    return ["/", ["*", ["var", "osl"], ["+", weights, keys]], ["*", flight, serving.bytes_per_s]]
