"""The calculators as live controls of a notebook (issue 3, item 4): the library's answers, nothing else."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from k3repro.capacity._cells import Cell
from k3repro.capacity._nmax import NMax, n_max
from k3repro.capacity._size import Sizing, Sla, size
from k3repro.capacity.derive import engine_of
from k3repro.capacity.wall import published_wall
from k3repro.errors import K3Error, MissingExtra
from k3repro.spec import load_layout, load_model

__all__ = ["calculator", "sizing_of", "sizing_text"]


def sizing_of(model: str, layout: str, sla: Sla, cells: Sequence[Cell]) -> tuple[NMax, Sizing]:
    """N_max of one decode pool of `layout` at the context of `sla`, and the sizing that follows from it."""
    launch = load_layout(layout)
    fits = n_max(
        load_model(model), engine_of(launch), launch.kv_pool_bytes, sla.context,
        max_num_seqs=launch.max_num_seqs, max_model_len=launch.max_model_len,
    )  # fmt: skip
    answer = size(
        sla, fits, published_wall(launch), cells, platform=launch.platform,
        nodes_per_pool=launch.decode_nodes, prefill_nodes=launch.prefill_nodes,
        max_model_len=launch.max_model_len,
    )  # fmt: skip
    return fits, answer


def sizing_text(model: str, layout: str, sla: Sla, cells: Sequence[Cell]) -> str:
    """The sizing as lines: what fits, what binds, the knob, nodes, latency, cost and every reason."""
    fits, answer = sizing_of(model, layout, sla, cells)
    shown = answer.as_dict()
    latency = shown["latency"]
    seconds = "not modelled" if latency["decode_s"] is None else f"{latency['decode_s']:.2f} s"
    cost = shown["cost"] or {}
    lines = [
        f"{layout}: feasible {answer.feasible}; {answer.concurrency_limit} requests fit, {fits.binds} binds",
        f"  laws: blocks {fits.block}, printed {fits.pool}, slots {fits.slots}; {fits.knob}",
        f"  nodes: {shown['nodes']['total']} ({shown['nodes']['note']})",
        f"  a request alone: {seconds} ({latency['reason']})",
        *(f"  {name}: {value}" for name, value in cost.items() if name != "cell"),
    ]
    return "\n".join(lines + [f"  {reason}" for reason in answer.reasons])


def calculator(
    model: str, layouts: Sequence[str], cells: Sequence[Cell], *,
    context: int, concurrency: int, reply: int, price_per_node_hour: float,
) -> Any:  # fmt: skip
    """Controls for a service level, answered as they move; None in a pipeline run, where nobody moves them.

    Raises:
        MissingExtra: without ipywidgets (extra `lab`).
    """
    if "K3REPRO_RECEIPTS" in os.environ:
        return None
    try:
        widgets = importlib.import_module("ipywidgets")
    except ImportError:
        raise MissingExtra(
            "ipywidgets is not installed", fix="Install it with `pip install 'k3repro[lab]'`."
        ) from None

    def answer(
        layout: str, context: int, concurrency: int, reply: int, latency_s: float, price: float
    ) -> None:
        try:
            sla = Sla(context, concurrency, reply, latency_s or None, price_per_node_hour=price or None)
            print(sizing_text(model, layout, sla, cells))
        except K3Error as error:
            print(error)

    return widgets.interactive(
        answer,
        layout=widgets.Dropdown(options=list(layouts), description="layout"),
        context=widgets.BoundedIntText(value=context, min=2, max=10_000_000, description="context"),
        concurrency=widgets.BoundedIntText(value=concurrency, min=1, max=100_000, description="in flight"),
        reply=widgets.BoundedIntText(value=reply, min=1, max=1_000_000, description="reply"),
        latency_s=widgets.BoundedFloatText(value=0.0, min=0.0, max=1e6, description="limit, s"),
        price=widgets.BoundedFloatText(value=price_per_node_hour, min=0.0, max=1e6, description="$/node-h"),
    )
