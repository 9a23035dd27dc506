"""Generated posts with known relations: some of them wrong on purpose, between numbers that relate to
nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

Fragment = tuple[str, str, bool]  # text, the token that is wrong if a slip is planted, whether it was

_MODELS = (
    "Qwen2.5-72B",
    "Llama-3.3-70B-Instruct",
    "DeepSeek-R1",
    "GLM-5.2-NVFP4",
    "gpt-oss-120b",
    "MiniMax-M2.7",
    "Kimi-K2.5",
)
_GPUS = ("H100", "H200", "B200", "MI300X", "MI355X", "A100")
_METRICS = (
    ("TTFT", "s", 1),
    ("TPOT", "ms", 1),
    ("P99 latency", "ms", 0),
    ("mean ITL", "ms", 1),
    ("end-to-end latency", "s", 1),
)
_RATES = (
    ("Throughput", "tok/s"),
    ("Output throughput", "tokens/s"),
    ("Decode throughput", "tok/s/GPU"),
    ("Goodput", "req/s"),
)


@dataclass
class Post:
    """A generated document: its text by format, and what was planted."""

    name: str
    suffix: str
    text: str
    planted: list[tuple[str, str]] = field(default_factory=list)  # kind, wrong token
    relations: int = 0


class Writer:
    """Draws numbers and words from one seeded source."""

    def __init__(self, seed: int, rate: float) -> None:
        self.random = random.Random(seed)
        self.rate = rate

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def slip(self) -> bool:
        return self.random.random() < self.rate

    def number(self, low: float, high: float, places: int) -> float:
        return round(self.random.uniform(low, high), places)

    def wrong(self, value: float, *others: float, near: float = 0.12) -> float:
        """A value that no rounding turns into the true one: a usual slip, or another digit."""
        options = [
            v
            for v in (*others, value * 1.3, value * 0.7, value * 1.5)
            if v > 0 and abs(v - value) > near * abs(value) + 1
        ]
        return self.random.choice(options or [value * 1.5 + 2])


def percent(value: float) -> str:
    return f"{value:.0f}%"


def from_to(w: Writer) -> Fragment:
    metric, unit, places = w.random.choice(_METRICS)
    a = w.number(20, 90, places)
    b = round(a * w.number(0.35, 0.8, 2), places)
    true = (1 - b / a) * 100
    bad = w.slip()
    said = percent(w.wrong(true, b / a * 100, (a / b - 1) * 100) if bad else true)
    text = w.pick(
        f"With this change {metric} dropped from {a} {unit} to {b} {unit}, a {said} reduction.",
        f"{metric} went from {a} {unit} to {b} {unit} ({said} lower).",
        f"We cut {metric} by {said}, from {a} {unit} to {b} {unit}.",
        f"{metric}: {a} {unit} → {b} {unit} (-{said}).",
        f"That brought {metric} down from {a} to {b} {unit} — a {said} decrease.",
        f"The patch reduces {metric} from {a} {unit} to {b} {unit}, which is a {said} improvement.",
    )
    return text, said, bad


def rise(w: Writer) -> Fragment:
    metric, unit = w.random.choice(_RATES)
    a = w.random.randint(1021, 4989)
    b = round(a * w.number(1.2, 2.9, 2))
    true = b / a
    bad = w.slip()
    factor = w.wrong(true, 1 / true, true - 1, near=0.2) if bad else true
    said = f"{factor:.2f}x"
    text = w.pick(
        f"{metric} rose from {a:,} {unit} to {b:,} {unit}, a {said} improvement.",
        f"{metric} improves {said}, from {a:,} to {b:,} {unit}.",
        f"We measured {said} higher throughput ({b:,} vs {a:,} {unit}).",
        f"{metric} climbs from {a:,} to {b:,} {unit} ({said}).",
        f"The new kernel reaches {b:,} {unit} versus {a:,} {unit} before, a {said} speedup.",
    )
    return text, said, bad


def annotated(w: Writer) -> Fragment:
    a = w.number(100, 300, 0)
    b, c = round(a * w.number(1.15, 1.6, 2)), round(a * w.number(1.7, 2.4, 2))
    true = (b / a - 1) * 100
    bad = w.slip()
    said = percent(w.wrong(true, (1 - a / b) * 100) if bad else true)
    return (
        f"At 1 GB, Alpha completes in {a:.0f} ms, Beta in {b} ms ({said} "
        f"slower), and Gamma in {c} ms ({percent((c / a - 1) * 100)} slower).",
        said,
        bad,
    )


def share_of(w: Writer) -> Fragment:
    peak = w.random.choice((50, 400, 900))
    a = round(peak * w.number(0.5, 0.97, 2), 1)
    bad = w.slip()
    said = percent(w.wrong(a / peak * 100) if bad else a / peak * 100)
    return (
        w.pick(
            f"It sustains {a} GB/s, about {said} of the {peak} GB/s line rate.",
            f"Transfers reach {a} GB/s ({said} of the {peak} GB/s peak).",
        ),
        said,
        bad,
    )


def speedups(w: Writer) -> Fragment:
    base, bad = w.random.randint(1013, 1987), w.slip()
    values = [base, *(round(base * w.number(1.2, 3.9, 2)) for _ in range(w.random.randint(2, 4)))]
    factors = [v / base for v in values]
    if bad:
        factors[-1] = w.wrong(factors[-1], near=0.2)
    rows = [
        (f"config {chr(65 + i)}", f"{v:,}", f"{w.random.randint(20, 400)}", f"{f:.2f}x" if i else "1.00x")
        for i, (v, f) in enumerate(zip(values, factors, strict=True))
    ]
    return (
        table(
            (
                "Config",
                w.pick("tok/s", "Throughput (tok/s)", "Output tokens/s"),
                "TTFT (ms)",
                w.pick("Speedup", "Relative", "vs. baseline"),
            ),
            rows,
        ),
        rows[-1][3],
        bad,
    )


def changes(w: Writer) -> Fragment:
    bad, rows = w.slip(), []
    for metric, low, high in (
        ("Throughput (tok/s)", 1000, 3000),
        ("TTFT (ms)", 200, 900),
        ("TPOT (ms)", 11, 60),
        ("Memory (GB)", 40, 140),
    ):
        a = w.random.randint(low, high)
        b = round(a * w.number(0.4, 1.9, 2))
        b += b == a
        rows.append([metric, f"{a:,}", f"{b:,}", (b / a - 1) * 100])
    at = w.random.randrange(len(rows))
    if bad:
        value = float(rows[at][3])
        rows[at][3] = w.wrong(abs(value), 100 - abs(value)) * (1 if value > 0 else -1)
    shown = [(*row[:3], f"{row[3]:+.1f}%") for row in rows]
    return (
        table(
            (
                "Metric",
                w.pick("Before", "Baseline", "v0.10"),
                w.pick("After", "Ours", "v0.11"),
                w.pick("Change", "Δ", "Improvement"),
            ),
            shown,
        ),
        shown[at][3],
        bad,
    )


def notes(w: Writer) -> Fragment:
    bad, base = w.slip(), w.number(20, 60, 1)
    rows: list[tuple[str, ...]] = [("baseline", f"{base}")]
    for name in ("A", "B", "C"):
        b = round(base * w.number(0.4, 0.9, 2), 1)
        change = (1 - b / base) * 100
        if bad and name == "C":
            change = w.wrong(change, b / base * 100)
        rows.append((name, f"{b} (-{change:.1f}%)"))
    return table(("Setup", "Mean TTFT (s)"), rows), rows[-1][1].partition("(")[2].rstrip(")"), bad


def means(w: Writer) -> Fragment:
    bad, count = w.slip(), w.random.randint(3, 9)
    values = [w.number(40, 95, 1) for _ in range(count)]
    true = sum(values) / count
    said = f"{w.wrong(true, near=0.06) if bad else true:.1f}"
    rows = [(f"bench-{chr(97 + i)}", f"{v:.1f}") for i, v in enumerate(values)]
    return table(("Benchmark", "Score"), [*rows, (w.pick("Average", "**Mean**", "Avg."), said)]), said, bad


def totals(w: Writer) -> Fragment:
    bad, parts = w.slip(), [w.number(3, 60, 1) for _ in range(w.random.randint(3, 6))]
    true = sum(parts)
    said = f"{w.wrong(true) if bad else true:.1f}"
    rows = [(f"stage {i}", f"{v:.1f}") for i, v in enumerate(parts, start=1)]
    return table(("Stage", "Time (ms)"), [*rows, ("Total", said)]), said, bad


def per_gpu(w: Writer) -> Fragment:
    bad, rows = w.slip(), []
    for i, gpus in enumerate((8, 16, 32)):
        each = w.random.randint(1003, 2999)
        total = gpus * each
        if bad and i == 2:
            total = round(w.wrong(total))
        rows.append((f"{gpus // 8} nodes", f"{gpus}", f"{each:,}", f"{total:,}"))
    return (
        table(("Setup", "GPUs", w.pick("tok/s/GPU", "Tokens/s/GPU"), w.pick("tok/s", "Total tok/s")), rows),
        rows[-1][3],
        bad,
    )


def in_out(w: Writer) -> Fragment:
    bad, rows = w.slip(), []
    for i in range(4):
        a, b = w.random.randint(2001, 9999), w.random.randint(301, 1999)
        total = a + b if not (bad and i == 3) else round(w.wrong(a + b))
        rows.append((str(2 ** (i + 3)), f"{a:,}", f"{b:,}", f"{total:,}"))
    return table(("Concurrency", "Input tok/s", "Output tok/s", "Total tok/s"), rows), rows[-1][3], bad


def listing(w: Writer) -> Fragment:
    bad, requests = w.slip(), w.random.choice((100, 500, 1000))
    seconds, tokens = w.number(20, 200, 2), requests * w.random.randint(100, 1000)
    rate = tokens / seconds
    said = f"{w.wrong(rate) if bad else rate:.2f}"
    lines = (
        ("Successful "
         "requests:", str(requests)), ("Benchmark duration "
                                       "(s):", f"{seconds:.2f}"), ("Total generated tokens:", str(tokens)),
        ("Request throughput "
         "(req/s):", f"{requests / seconds:.2f}"), ("Output token throughput (tok/s):", said),
    )  # fmt: skip
    return "```\n" + "\n".join(f"{name:<41}{value}" for name, value in lines) + "\n```", said, bad


def percentiles(w: Writer) -> Fragment:
    bad, rows = w.slip(), []
    for i, name in enumerate(("TTFT (ms)", "TPOT (ms)")):
        a = w.random.randint(20, 200)
        b, c = round(a * 1.6), round(a * 2.7)
        if bad and i == 1:
            c = round(b * 0.7)
        rows.append((name, str(a), str(b), str(c)))
    return table(("Metric", "P50", "P90", "P99"), rows), rows[1][3], bad


def equation(w: Writer) -> Fragment:
    a, b = w.random.randint(2, 9), w.random.choice((4, 8, 16))
    bad = w.slip()
    said = str(a * b + (w.random.choice((2, 4, 8)) if bad else 0))
    return (
        w.pick(f"In all that is {a} × {b} = {said} GPUs.", f"We therefore need {a} x {b} = {said} ranks."),
        said,
        bad,
    )


def conversion(w: Writer) -> Fragment:
    gb = w.random.randint(40, 900)
    bad = w.slip()
    said = f"{(gb * 1.0737 if bad else gb / 1.073741824):.1f} GiB"
    return (
        w.pick(f"The weights take {gb} GB ({said}).", f"That leaves {gb} GB ({said}) for the cache."),
        said,
        bad,
    )


def reciprocal(w: Writer) -> Fragment:
    ms = w.random.choice((10, 20, 25, 40, 50))
    bad = w.slip()
    said = str(round(1000 / ms * (1.6 if bad else 1)))
    return f"Our target is a mean TPOT of {ms} ms — roughly {said} tokens/s per user.", said, bad


def cluster(w: Writer) -> Fragment:
    nodes, each = w.random.randint(2, 9), w.random.choice((4, 8))
    bad = w.slip()
    said = str(nodes * each + (each if bad else 0))
    gpu = w.random.choice(_GPUS)
    return (
        w.pick(
            f"The cluster has {nodes} nodes with {each} {gpu} GPUs each ({said} GPUs in total).",
            f"All runs use {nodes} {each}-GPU {gpu} servers ({said} GPUs in total).",
        ),
        said,
        bad,
    )


def counted(w: Writer) -> Fragment:
    items = w.random.randint(2, 6)
    bad = w.slip()
    word = ["zero", "one", "two", "three", "four", "five", "six", "seven"][
        items - 1 if bad and items > 2 else items + 1 if bad else items
    ]
    noun = w.pick("changes", "observations", "components", "mechanisms")
    lines = "\n".join(f"- the {w.pick('first', 'next', 'other')} part {i}" for i in range(items))
    return f"The design rests on {word} {noun}:\n\n{lines}", word, bad


def rest(w: Writer) -> Fragment:
    a = w.random.randint(55, 90)
    bad = w.slip()
    said = percent(100 - a + (w.random.choice((7, 9, 14)) if bad else 0))
    return f"Of all requests {a}% hit the cache, the remaining {said} miss it.", said, bad


def quoted(w: Writer) -> Fragment:
    bad = w.slip()
    rows = [(name, f"{w.number(50, 95, 2):.2f}") for name in ("Coding", "Math", "Retrieval", "Dialogue")]
    said = f"{float(rows[1][1]) * (0.9 if bad else 1):.2f}"
    return f"It is strong on math ({said}).\n\n" + table(("Domain", "Score"), rows), said, bad


def heading(w: Writer) -> Fragment:
    value, bad = w.random.randint(11, 60), w.slip()
    said = percent(value + (w.random.choice((7, 12)) if bad else 0))
    name = w.pick("Runner", "Router", "Scheduler", "Allocator")
    return (
        f"## {name}: {said} Lower TPOT\n\nOn the decode side the "
        f"{name.lower()} improved TPOT by {value}% over the old one.",
        said,
        bad,
    )


def model_fact(w: Writer) -> Fragment:
    name, true, wrong = w.random.choice(
        (("Kimi K3", "2.8T", "2T"), ("DeepSeek-V3", "671B", "761B"), ("Llama-3.1-405B", "405B", "450B"))
    )
    bad = w.slip()
    said = wrong if bad else true
    return f"{name} is a {said} parameter model.", said, bad


KINDS: dict[str, Callable[[Writer], Fragment]] = {
    "from-to": from_to, "rise": rise, "annotation": annotated, "percent-of": share_of,
    "baseline table": speedups, "change table": changes, "annotated table": notes, "mean row": means,
    "total row": totals, "GPUs x per-GPU": per_gpu, "input + output": in_out, "listing": listing,
    "percentiles": percentiles, "equation": equation, "conversion": conversion, "reciprocal": reciprocal,
    "cluster": cluster, "count": counted, "shares": rest, "quote": quoted, "heading": heading,
    "fact": model_fact,
}  # fmt: skip


def filler(w: Writer) -> str:
    """Sentences full of numbers that say nothing of each other."""
    model, gpu = w.random.choice(_MODELS), w.random.choice(_GPUS)
    r = w.random
    return w.pick(
        f"We serve {model} on {r.choice((4, 8))}x{gpu} with vLLM v0.{r.randint(6, 15)}.{r.randint(0, 3)} "
        f"and CUDA 12.{r.randint(1, 9)}, ISL {2 ** r.randint(9, 14)} and OSL {2 ** r.randint(7, 11)}.",
        f"As the context grows from {r.randint(4, 16)}K to "
        f"{r.randint(64, 256)}K tokens, throughput drops by {r.randint(20, 60)}%.",
        f"Figure {r.randint(1, 9)} shows the sweep over {r.randint(5, 12)} request rates from "
        f"{r.randint(1, 4)} to {r.randint(16, 64)} req/s; see Section {r.randint(2, 7)}.",
        f"On {r.randint(2, 12)} {w.pick('March', 'July', 'October')} "
        f"202{r.randint(4, 6)} the fix landed in PR #{r.randint(10000, 60000)}.",
        f"Scaling from {r.choice((1, 2))} to {r.choice((8, 16))} GPUs "
        f"improves throughput by {r.randint(3, 7)}.{r.randint(1, 9)}x.",
        f"TPOT stays under {r.randint(30, 60)} ms while concurrency reaches "
        f"{r.choice((64, 128, 256))} and the hit rate is {r.randint(60, 99)}%.",
        f"Relaxing the TTFT limit from {r.randint(1, 2)} s to "
        f"{r.randint(3, 6)} s raises goodput by {r.randint(20, 70)}%.",
        f"{model} reaches {r.randint(900, 5000):,} tok/s/GPU at c{r.choice((64, 512))}, "
        f"and {r.randint(900, 5000):,} tok/s/GPU with prefix caching.",
        f"Acceptance is {r.randint(60, 90)}%, {r.randint(40, 59)}% "
        f"and {r.randint(20, 39)}% for the first three draft tokens.",
        f"`--max-num-batched-tokens {2 ** r.randint(10, 15)}` and `--gpu-memory-utilization "
        f"0.9{r.randint(0, 5)}` are set on all {r.randint(2, 8)} pods.",
    )


def idle_table(w: Writer) -> str:
    """A table of settings and results without a relation."""
    rows = [
        (str(2**i), f"{w.random.randint(100, 900)}", f"{w.number(10, 90, 1)}", f"{w.random.randint(1, 99)}%")
        for i in range(4)
    ]
    return table(("Batch size", "tok/s", "TPOT (ms)", "GPU utilization"), rows)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def posts(count: int, seed: int, rate: float) -> list[Post]:
    return [_post(Writer(seed * 100_003 + i, rate), i) for i in range(count)]


def _post(w: Writer, index: int) -> Post:
    names = w.random.sample(list(KINDS), w.random.randint(4, 8))
    planted, parts = [], [f"# Serving notes {index}", filler(w)]
    for name in names:
        text, token, bad = KINDS[name](w)
        if bad:
            planted.append((name, token))
        if w.random.random() < 0.4 and name != "heading":
            parts.append(f"## {w.pick('Results', 'Setup', 'Analysis', 'Discussion')} {name}")
        parts += [text, *(filler(w) for _ in range(w.random.randint(0, 2)))]
        if w.random.random() < 0.15:
            parts.append(idle_table(w))
    body = "\n\n".join(parts) + "\n"
    suffix = w.random.choice((".md", ".md", ".html", ".ipynb"))
    return Post(f"post-{index:03}{suffix}", suffix, _as(suffix, body), planted, len(names))


def _as(suffix: str, body: str) -> str:
    if suffix == ".ipynb":
        cells = [{"cell_type": "markdown", "source": part, "metadata": {}} for part in body.split("\n## ")]
        cells = [cells[0], *({**c, "source": "## " + str(c["source"])} for c in cells[1:])]
        return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}})
    if suffix == ".html":
        from markdown_it import MarkdownIt

        page = MarkdownIt("commonmark").enable("table").render(body)
        return (
            f"<html><head><title>Notes</title></head><body><nav><a href='/p/2025/12'>12 "
            f"posts</a></nav><article>{page}</article></body></html>"
        )
    return body
