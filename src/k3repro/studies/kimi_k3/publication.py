"""publication-check: what is printed about memory and capacity beside what the arithmetic gives.

Each row recomputes one printed figure from sealed specs: by its own label, and by another reading where one
gives the printed figure or corrects it. Whether the figure stands is the ledger's to say: each row names its
claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from k3repro.budget import Candidate, Weights, candidates, checkpoint_of_model, weights_of
from k3repro.budget.derive import terms_among
from k3repro.budget.sealed import Specs, specs_of
from k3repro.capacity import Engine, block_law, engine_of, state_bytes, token_bytes
from k3repro.errors import InputError
from k3repro.relation import relation_of
from k3repro.spec import Layout, Model, Platform
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation
from k3repro.units import GIB

_MIB = 2**20


class CheckedFigure(Row, table="readings", key=("topic", "item")):
    """Printed figures of the memory argument, recomputed."""

    topic: str
    item: str
    claim: Annotated[str, Col(doc="id in the ledger, which has the verdict")]
    label: Annotated[str | None, Col(doc="the words the figure stands beside")]
    printed_text: str | None
    printed: float | None
    by_label: Annotated[float | None, Col(doc="computed as the label says; NULL when it cannot be")]
    other: Annotated[
        float | None, Col(doc="another reading, where one gives the printed figure or corrects it")
    ]
    unit: str | None
    why: str | None
    relation: Annotated[str | None, Col(doc="of the printed figure to the computed one")]
    place: str | None


SCHEMA = Schema((CheckedFigure.TABLE,))


@dataclass(frozen=True, slots=True)
class Answer:
    """What arithmetic gives for a figure: by its label, by another reading, and the reason in words."""

    by_label: float | None
    other: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the figures are recomputed from; `printed` are constants by (quantity, platform)."""

    printed: Mapping[tuple[str, str], float]
    model: Model
    platforms: Mapping[str, Platform]
    layouts: Mapping[str, Layout]
    weights: Weights
    parts: Mapping[str, int]
    total: int
    parameters: int
    terms: Mapping[str, int]

    def gib(self, *names: str) -> float:
        """Components in GiB."""
        return sum(self.parts[name] for name in names) / GIB

    def engine(self, platform: str) -> Engine:
        """The engine of the published layout."""
        return engine_of(self.layouts[platform])

    def sequences(self, platform: str, context: int) -> int:
        """Requests of a context that the decode pool of a platform holds, by blocks."""
        layout = self.layouts[platform]
        law = block_law(self.model, self.engine(platform))
        return law.n_max(law.pool_blocks(layout.kv_pool_bytes), context)

    def by_bytes(self, platform: str, context: int, dp: int | None = None) -> float:
        """Requests of a context by bytes per token alone, the published law."""
        layout = self.layouts[platform]
        return layout.kv_pool_bytes * (dp or layout.dp) / (self.token_bytes * context)

    def plans(self) -> list[Candidate]:
        """Layouts of two nodes of the smaller platform, by the published heap and overhead."""
        return list(candidates(self.model, self.weights, self.platforms["mi300x"], 2, **self.terms))

    @property
    def token_bytes(self) -> float:
        """Cache bytes per token, as printed."""
        return self.printed["kv_bytes_per_token", "both"]


def _dense(facts: Facts) -> float:
    """Everything but routed experts and vision, in GiB."""
    return (facts.total - facts.parts["routed_experts"] - facts.parts["vision"]) / GIB


def _transfer(facts: Facts) -> Answer:
    engine = Engine(kv_dtype="fp8")
    latent = 1024 * token_bytes(facts.model, engine)
    with_state = (latent + state_bytes(facts.model, engine)) / _MIB
    return Answer(
        with_state, facts.token_bytes * 1024 / _MIB,
        "The printed figure is bytes per token times tokens: it has room for the latent only. The "
        "recurrent state of all KDA layers is larger by an order of magnitude and does not depend on "
        "the prompt.",
    )  # fmt: skip


def _latent_ratio(facts: Facts) -> Answer:
    mla = facts.model.mla
    assert mla is not None
    latent = mla.kv_lora + mla.rope
    return Answer(
        mla.heads * (mla.nope + mla.rope + mla.v) / latent, 2 * mla.heads * mla.v / latent,
        "Keys with and without the extra channels, over the latent: either way several times the "
        "printed ratio.",
    )  # fmt: skip


def _fitting(facts: Facts) -> Answer:
    plans = facts.plans()
    return Answer(
        float(sum(plan.headroom_on_disk > 0 for plan in plans)),
        float(sum(plan.headroom_high > 0 for plan in plans)),
        "By the publication's own table every layout but TP1 fits the smaller memory, and what fits "
        "that fits the larger one. TP2 is chosen for throughput, not because nothing else fits.",
    )  # fmt: skip


def _short(platform: str) -> Callable[[Facts], Answer]:
    return lambda facts: Answer(
        facts.by_bytes(platform, 1280),
        float(facts.sequences(platform, 1280)),
        "The published law gives half of what is printed, which would be both GPUs of a pair counted."
        " By blocks each request pins its state, so the pool holds far fewer still.",
    )


# item -> topic, claim, computation
_FIGURES: dict[str, tuple[str, str, Callable[[Facts], Answer]]] = {
    "total parameters": ("checkpoint", "params", lambda f: Answer(f.parameters / 1e12)),
    "weights on disk": ("checkpoint", "w.total", lambda f: Answer(
        f.total / GIB, (f.total + 75_664_528) / GIB,
        "Tensor bytes alone round to a tenth less. With headers, or with a few state tensors stored "
        "as f32, the printed figure comes out; an index holds neither. Which of the two it was cannot"
        " be told.")),
    "routed experts": ("checkpoint", "w.routed", lambda f: Answer(f.gib("routed_experts"))),
    "routed share": ("checkpoint", "w.share", lambda f: Answer(100 * f.parts["routed_experts"] / f.total)),
    "attention row": ("checkpoint", "w.mla", lambda f: Answer(
        f.gib("mla"), f.gib("mla", "kda"),
        "The figure is all self-attention, KDA and MLA together. g_proj and o_proj exist in both "
        "kinds of layer, so a sum by name cannot tell them apart.")),
    "shared experts": ("checkpoint", "w.shared", lambda f: Answer(f.gib("shared_experts"))),
    "KDA row": ("checkpoint", "w.rest", lambda f: Answer(
        f.gib("kda", "norms", "dense"), f.gib("latent", "router", "dense", "norms"),
        "The figure is what is left of the text model: latent projections, router gates, dense layer,"
        " norms. There is no KDA in it.")),
    "embeddings row": ("checkpoint", "w.embed", lambda f: Answer(f.gib("embeddings"))),
    "balance": ("checkpoint", "repl.size", lambda f: Answer(
        _dense(f), _dense(f) + f.gib("vision"),
        "The four rows hold the router gates already. What is added is the vision tower with its "
        "projector.")),
    "experts per GPU": ("budget", "w.experts.gpu", lambda f: Answer(
        f.gib("routed_experts") / 16, f.weights.experts_resident / 16 / GIB,
        "That is the on-disk format. The experts are converted to int4 with bf16 scales at load, which is "
        "larger (the second figure).")),
    "dense per GPU": ("budget", "repl.tp2", lambda f: Answer((_dense(f) + f.gib("vision")) / 2)),
    "node memory": ("budget", "node.usable", lambda f: Answer(
        8 * f.platforms["mi300x"].hbm_bytes / GIB, None,
        "The driver reports more. What was subtracted is not printed.")),
    "measured pool": ("budget", "tp8.measured", lambda f: Answer(None, None,
        "The KV pool of that serve is not printed, so nothing can be solved back from it.")),
    "layouts that fit": ("budget", "layouts.fit", _fitting),
    "latent bytes": ("capacity", "kv.tok", lambda f: Answer(
        None, float(token_bytes(f.model, Engine(kv_dtype="fp8"))),
        "First principles give the second figure; the excess of the printed one has no printed source.")),
    "bytes from tokens": ("capacity", "kv.tok2", lambda f: Answer(
        f.printed["kv_pool", "mi325x"] * 1e9 / f.printed["kv_tokens_per_gpu", "mi325x"], None,
        "The division is right and no second measurement: the token count depends on max_model_len, "
        "which the engine divides by. The same pool prints other counts at other lengths.")),
    "latent against full heads": ("capacity", "mla.saving", _latent_ratio),
    "transfer per request": ("capacity", "kv.request", _transfer),
    "short sequences MI325X": ("capacity", "max.mi325x", _short("mi325x")),
    "short sequences MI300X": ("capacity", "max.mi300x", _short("mi300x")),
    "pool ratio": ("capacity", "pool.ratio", lambda f: Answer(
        f.layouts["mi325x"].kv_pool_bytes / f.layouts["mi300x"].kv_pool_bytes,
        f.sequences("mi325x", 200_000) / f.sequences("mi300x", 200_000),
        "The ratio of the pools. In requests it depends on the context, because each lane rounds down.")),
    "experts in the lane": ("capacity", "local.num", lambda f: Answer(
        16 * f.layouts["mi300x"].tp / f.layouts["mi300x"].ep, None,
        "A lane owns two of sixteen expert ranks. With even routing that many of sixteen choices stay"
        " at home.")),
    "wave tokens": ("capacity", "prompt.work", lambda f: Answer(32 * 200_000 / 1)),
}  # fmt: skip


def _facts(specs: Specs, inputs: Sequence[Artifact]) -> Facts:
    model = specs.model()
    missing = {"mi300x", "mi325x"} - specs.platforms.keys()
    layouts = {layout.platform: layout for layout in specs.layouts.values() if layout.model == model.name}
    missing |= {"mi300x", "mi325x"} - layouts.keys()
    if missing:
        raise InputError(f"no sealed platform or layout of {', '.join(sorted(missing))} among the inputs")
    inventory = checkpoint_of_model(model).inventory
    parts = {name: part.bytes for name, part in inventory.components.items()}
    weights = weights_of(inventory, model, platform=specs.platforms["mi300x"])
    constants = [row for a in inputs if a.name == "published-capacity" for row in a.rows("constants")]
    printed = {(row["quantity"], row["platform"]): row["value"] for row in constants}
    if not printed:
        raise InputError("no printed constants among the inputs", fix="Give published-capacity.")
    return Facts(
        printed, model, specs.platforms, layouts, weights, parts, inventory.bytes, inventory.parameters,
        terms_among(inputs),
    )  # fmt: skip


@derivation(name="publication-check", schema=SCHEMA)
def publication_check(inputs: Sequence[Artifact]) -> Rows:
    """Printed figures computed anew: sealed specs and terms, `published-memory` and `published-capacity`.

    Raises:
        InputError: a spec or transcription is missing.
    """
    facts = _facts(specs_of(list(inputs)), inputs)
    rows: list[CheckedFigure] = []
    for artifact in inputs:
        if artifact.name == "published-memory":
            rows += [_figure(facts, row) for row in artifact.rows("figures") if row["item"] in _FIGURES]
        elif artifact.name == "published-capacity":
            rows += [_layout_row(facts, row) for row in artifact.rows("layouts")]
            rows += [_grid_row(facts, row) for row in artifact.rows("grid")]
            rows += [
                _tokens_row(facts, row)
                for row in artifact.rows("constants")
                if row["quantity"] == "kv_tokens_per_gpu"
            ]
            rows += _example(facts, artifact.rows("worked_example"))
    if not rows:
        raise InputError("no transcription of the publication among the inputs")
    return {"readings": rows}


def _row(
    topic: str, item: tuple[str, str], label: str, cell: tuple[str, float | None], unit: str, place: str,
    answer: Answer,
) -> CheckedFigure:  # fmt: skip
    """`item` is a figure and its claim, `cell` its print and value."""
    return CheckedFigure(
        topic=topic, item=item[0], claim=item[1], label=label, printed_text=cell[0],
        printed=cell[1], by_label=answer.by_label, other=answer.other, unit=unit,
        why=answer.why, relation=_relation(topic, item[0]), place=place,
    )  # fmt: skip


def _relation(topic: str, item: str) -> str:
    """Version and prefix caching were chosen by the token counts; budget terms and N_max share a formula."""
    used = item.startswith("KV tokens")
    return relation_of(fitted=used, used=used, one_law=topic not in ("checkpoint", "capacity"))


def _figure(facts: Facts, row: Mapping[str, Any]) -> CheckedFigure:
    topic, claim, compute = _FIGURES[row["item"]]
    cell = (row["value_printed"], row["value"])
    return _row(topic, (row["item"], claim), row["label"], cell, row["unit"], row["place"], compute(facts))


def _layout_row(facts: Facts, row: Mapping[str, Any]) -> CheckedFigure:
    plan = next(plan for plan in facts.plans() if plan.tp == row["tp"])
    answer = Answer(
        plan.headroom_on_disk / GIB,
        plan.headroom_high / GIB,
        "The table takes experts at their on-disk size. Held as int4 with bf16 scales they leave less"
        " (second figure), and less again if gates and low-rank projections are whole on every rank.",
    )
    cell = (row["headroom_gib_printed"], row["headroom_gib"])
    item = (row["layout"], f"t1.tp{row['tp']}.headroom")
    return _row("layouts", item, "KV headroom per GPU", cell, "GiB", "Table 1", answer)


def _grid_row(facts: Facts, row: Mapping[str, Any]) -> CheckedFigure:
    platform, context = row["platform"], row["context_tokens"]
    answer = Answer(
        facts.by_bytes(platform, context),
        float(facts.sequences(platform, context)),
        "By the published law, before it is cut to whole requests; some printed cells are rounded up "
        "instead. The second figure is the block law.",
    )
    item = f"N_max {platform} {context // 1000}K", f"t2.k{context // 1000}.n{platform[2:5]}"
    cell = (row["n_max_printed"], row["n_max"])
    return _row("concurrency", item, "N_max", cell, "requests", "Table 2", answer)


def _tokens_row(facts: Facts, row: Mapping[str, Any]) -> CheckedFigure:
    layout = facts.layouts[row["platform"]]
    law = block_law(facts.model, facts.engine(row["platform"]))
    tokens = law.printed_tokens(law.pool_blocks(layout.kv_pool_bytes), layout.max_model_len)
    answer = Answer(
        float(tokens),
        None,
        "The block law gives the printed count to the token, from pool and max_model_len.",
    )
    cell = (row["value_printed"], row["value"])
    item = f"KV tokens {row['platform']}", f"tokens.{row['platform']}"
    return _row("capacity", item, "KV tokens per GPU", cell, "tokens", row["place"], answer)


def _example(facts: Facts, rows: Sequence[Mapping[str, Any]]) -> list[CheckedFigure]:
    """The worked example: 200K context, 32 concurrent, 256-token replies."""
    found = []
    for row in rows:
        for platform in ("mi300x", "mi325x"):
            step = _step(facts, row["step"], platform)
            if step is not None:
                claim, answer = step
                cell = (row[f"{platform}_printed"], row[platform])
                item = f"{row['step']} {platform}", f"{claim}.{platform}"
                found.append(_row("worked example", item, row["step"], cell, "", row["locator"], answer))
    return found


def _step(facts: Facts, step: str, platform: str) -> tuple[str, Answer] | None:
    """The claim of a step, less its platform, and what the step gives."""
    layout = facts.layouts[platform]
    if step.startswith("wall"):
        assert layout.wall is not None
        value = layout.wall.c0_s + 256 * layout.wall.k_s_per_token
        return "wall", Answer(
            value, None,
            "The sum is right and answers another question: the law was fitted at 1,024 input tokens "
            "and one request. A wave of this context and concurrency took half an hour on the smaller"
            " platform.",
        )  # fmt: skip
    if step.startswith("in-flight"):
        return "slots", Answer(float(layout.slots))
    if step.startswith("headroom"):
        return "room", Answer(
            facts.by_bytes(platform, 200_000) / 32, facts.sequences(platform, 200_000) / 32,
            "By blocks the smaller platform has no headroom left at this concurrency (second figure).",
        )  # fmt: skip
    return None
