"""decision-checklist: what to decide before a launch, from a model's spec, its layout and the engine rules.

Data in, rows out: no advice is written here. A row is one choice (a block size, AITER, KV offload,
a TP size, a number format), every other setting as the layout has it, and what each engine version does with
it. `allow`, `deny` and `substitutes` come with rule and evidence; `unknown` means that no rule speaks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from k3repro.budget import passes_of, tensor_parallel_sizes
from k3repro.budget.sealed import Specs, specs_of
from k3repro.capacity import engine_of, token_bytes
from k3repro.errors import InputError, K3Error
from k3repro.spec import EngineRule, Layout, Model, Platform, model_facts, rules_for
from k3repro.store import Artifact, Col, Column, Row, Rows, Schema, Store, Table, derivation
from k3repro.studies.node.roofline import optional_rows, specs_for

__all__ = ["decision_checklist", "seal_checklist"]

VERSIONS = ("0.14.1", "0.18.0", "0.27.0")
"""The engine of the cross-architecture study, the first with wider head counts, that of the first study."""

ITEMS = Table(
    "items",
    (
        *(Column(name, "VARCHAR", nullable=False) for name in ("layout", "version", "choice", "setting")),
        Column("model", "VARCHAR"),
        Column("published", "BOOL", doc="whether the layout is set so"),
        Column("outcome", "VARCHAR", doc="allow, deny, substitutes, or unknown: no rule speaks"),
        *(Column(name, "VARCHAR") for name in ("what", "fix", "rules", "evidence")),
    ),
    key=("layout", "version", "choice", "setting"),
    doc="One choice at a time, the rest as the layout has it.",
)


class TensorParallelFit(Row, table="fits", key=("layout", "tp")):
    """Every TP size of a node: whether the weights fit, and what is left for keys and values."""

    layout: str
    tp: int
    model: str | None
    outcome: Annotated[str | None, Col(doc="allow or deny")]
    what: str | None
    weight_bytes_per_gpu: Annotated[float | None, Col("bytes")]
    kv_room_bytes: Annotated[float | None, Col("bytes", "per GPU, activations and graphs not taken off")]
    kv_bytes_per_token: Annotated[int | None, Col("bytes", "per GPU")]
    kv_tokens: Annotated[int | None, Col("tokens", "that the room holds")]
    kv_copies: Annotated[float | None, Col("x", "GPUs that hold the same token, by TP")]


CONSTRAINTS = Table(
    "constraints",
    (
        *(Column(name, "VARCHAR", nullable=False) for name in ("constraint", "version")),
        *(
            Column(name, "VARCHAR")
            for name in ("claimed", "outcome", "verdict", "rules", "evidence", "place")
        ),
    ),
    key=("constraint", "version"),
    doc="What a document says of an engine, against the rules of three versions.",
)
SCHEMA = Schema((ITEMS, TensorParallelFit.TABLE, CONSTRAINTS))
_WORST = ("deny", "substitutes", "allow")


@dataclass(frozen=True, slots=True)
class _Choice:
    """One setting to try: its facts replace those of the layout."""

    name: str
    setting: str
    facts: dict[str, Any]
    tp: int = 0


@derivation(name="decision-checklist", schema=SCHEMA)
def decision_checklist(inputs: Sequence[Artifact], *, versions: Sequence[str] = VERSIONS) -> Rows:
    """Choices of every layout among the sealed specs, and the constraints of a document where one is given.

    Raises:
        InputError: no layout among the inputs, or a version that is none.
    """
    specs = specs_of(list(inputs))
    if not specs.layouts:
        raise InputError("no layout among the inputs", fix="Seal the layouts, their models and platforms.")
    claims = [
        row
        for item in inputs
        if item.name == "published-figures"
        for row in optional_rows(item, "constraints")
    ]
    parts = [_parts(specs, layout) for _, layout in sorted(specs.layouts.items())]
    return {
        "items": [row for part in parts for version in versions for row in _items(*part, version)],
        "fits": [row for part in parts for row in _fits(*part)],
        "constraints": [_constraint(row, version) for row in claims for version in versions],
    }


def _parts(specs: Specs, layout: Layout) -> tuple[Model, Layout, Platform]:
    if layout.model not in specs.models or layout.platform not in specs.platforms:
        raise InputError(f"the model or the platform of {layout.name} is not among the sealed specs")
    return specs.models[layout.model], layout, specs.platforms[layout.platform]


def layout_facts(model: Model, layout: Layout, platform: Platform, tp: int = 0) -> dict[str, Any]:
    """What engine rules ask about a launch, from its layout; what a layout does not say stays unknown."""
    return {
        "arch": platform.arch,
        **model_facts(model, tp or layout.tp, layout.vision_mode),
        "block_size": layout.block_size,
        "kv_dtype": layout.kv_dtype,
        "quantization": layout.quantization,
        "aiter": layout.aiter,
        "aiter_mla": layout.aiter if model.mla else None,
        "kv_offload": bool(layout.kv_offload_bytes),
    }


def _choices(model: Model, platform: Platform) -> Iterator[_Choice]:
    for size in (1, 16):
        yield _Choice("block size", str(size), {"block_size": size})
    for on in (True, False):
        yield _Choice("AITER", "on" if on else "off", {"aiter": on, "aiter_mla": on if model.mla else None})
        yield _Choice("KV offload", "on" if on else "off", {"kv_offload": on})
    for kind in ("auto", "fp8"):
        yield _Choice("KV cache format", kind, {"kv_dtype": kind})
    for form, name in ((None, "as stored"), ("fp8", "fp8 while loading")):
        yield _Choice("linear layers", name, {"quantization": form})
    for tp in tensor_parallel_sizes(platform):
        yield _Choice("tensor parallel", str(tp), {}, tp)
    if model.vision:
        for mode in ("data", "weights"):
            width = model_facts(model, platform.gpus_per_node, mode)["vision_columns"]
            yield _Choice("vision tower", mode, {"vision_columns": width})


def _items(model: Model, layout: Layout, platform: Platform, version: str) -> Iterator[dict[str, Any]]:
    own = layout_facts(model, layout, platform)
    for choice in _choices(model, platform):
        facts = {**own, **layout_facts(model, layout, platform, choice.tp)} if choice.tp else dict(own)
        facts |= choice.facts
        asked = set(choice.facts) or {"heads_per_rank", "vision_columns"}
        found = [rule for rule in rules_for(facts, version) if asked & set(rule.when)]
        yield {
            "layout": layout.name, "version": version, "choice": choice.name, "setting": choice.setting,
            "model": model.name, "published": _published(own, layout, choice), **_judged(found),
        }  # fmt: skip


def _published(own: Mapping[str, Any], layout: Layout, choice: _Choice) -> bool:
    if choice.tp:
        return choice.tp == layout.tp
    return all(own.get(name) == value for name, value in choice.facts.items())


def _judged(found: Sequence[EngineRule]) -> dict[str, Any]:
    """The worst outcome of the rules that speak, with the words and evidence of those that give it."""
    outcome = next((word for word in _WORST if any(rule.outcome == word for rule in found)), "unknown")
    telling = [rule for rule in found if rule.outcome == outcome]
    return {
        "outcome": outcome,
        "what": " ".join(rule.what for rule in telling),
        "fix": " ".join(rule.fix for rule in telling if rule.fix),
        "rules": ", ".join(rule.id for rule in telling),
        "evidence": "; ".join(dict.fromkeys(rule.evidence for rule in telling)),
    }


def _fits(model: Model, layout: Layout, platform: Platform) -> Iterator[dict[str, Any]]:
    passes = passes_of(model, layout.quantization)
    table = 2.0 * model.vocab_size * model.hidden_size * (not model.tied_embeddings)
    weights = passes.routed_bytes + passes.shared_bytes + table + 2.0 * passes.vision
    room = platform.hbm_bytes * (layout.gpu_memory_utilization or 0.9)
    for tp in tensor_parallel_sizes(platform):
        left = room - weights / tp
        row: dict[str, Any] = {
            "layout": layout.name, "tp": tp, "model": model.name, "weight_bytes_per_gpu": weights / tp,
            "kv_room_bytes": left, "outcome": "allow", "what": "weights fit",
        }  # fmt: skip
        try:
            each = token_bytes(model, _engine(layout, tp))
            copies = each * tp / token_bytes(model, _engine(layout, 1))
            row |= {"kv_bytes_per_token": each, "kv_copies": copies}
        except K3Error as error:
            yield row | {"outcome": "deny", "what": error.what}
            continue
        if left <= 0:
            yield row | {"outcome": "deny", "what": "weights do not fit"}
        else:
            yield row | {"kv_tokens": int(left // each)}


def _engine(layout: Layout, tp: int) -> Any:
    from dataclasses import replace

    return replace(engine_of(layout), tp=tp, dp=1, pp=1)


def _constraint(row: Mapping[str, Any], version: str) -> dict[str, Any]:
    found = rules_for(json.loads(row["facts"]), version)
    judged = _judged(found)
    outcome = judged["outcome"]
    verdict = (
        "holds" if outcome == row["claimed"] else "undecided" if outcome == "unknown" else "does not hold"
    )
    return {
        "constraint": row["constraint"], "version": version, "claimed": row["claimed"], "outcome": outcome,
        "verdict": verdict, "rules": judged["rules"], "evidence": judged["evidence"], "place": row["place"],
    }  # fmt: skip


def seal_checklist(store: Store, study: str, figures: str = "") -> Artifact:
    """Seal the checklist of the layouts of ``published-levels@STUDY``; constraints of ``FIGURES`` if named.

    Raises:
        ArtifactMissing: not transcribed yet.
    """
    inputs = specs_for(store, store.find(f"published-levels@{study}"))
    if figures:
        inputs.append(store.find(f"published-figures@{figures}"))
    return store.derive(decision_checklist, inputs, subject=study)
