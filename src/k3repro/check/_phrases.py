"""The words around a number: units as posts write them, hedges, and names that hold digits but are no
numbers.
"""

from __future__ import annotations

import re
from functools import lru_cache

from k3repro.printed import HEDGES

__all__ = ["ADJECTIVES", "BEFORE", "HEDGE_BEFORE", "NAMES", "TIMES", "UNIT", "canonical", "header_unit"]

# What is printed -> the name in the one unit table (k3repro.printed). Longer spellings first.
_HEADS = (
    (r"(?:percentage|percent)[\s-]points?|pp\b|p\.p\.|ppt\b|%[\s-]?points?|pts?\b|points?\b", "point"),
    (r"%|percent\b|per cent\b|Prozent\b", "%"), (r"TPS\b|tps\b|[Tt]oks?/sec\b", "tokens/s"),
    (r"QPS\b|RPS\b|qps\b|rps\b", "request/s"), (r"RPM\b|rpm\b", "request/min"),
    (r"[Tt]okens?\b|[Tt]oks?\b", "tokens"), (r"requests?\b|reqs?\b|queries\b|query\b", "request"),
    (r"PFLOPs?\b|PFLOPS\b|petaflops?\b", "PFLOP"), (r"TFLOPs?\b|TFLOPS\b|TFlops?\b|teraflops?\b", "TFLOP"),
    (r"GFLOPs?\b|GFLOPS\b", "GFLOP"), (r"EFLOPs?\b|EFLOPS\b", "EFLOP"), (r"FLOPs?\b|FLOPS\b", "FLOP"),
    (r"TiB\b", "TiB"), (r"GiB\b", "GiB"), (r"MiB\b", "MiB"), (r"[Kk]iB\b", "KiB"),
    (r"PB\b|petabytes?\b", "PB"), (r"TB\b|terabytes?\b", "TB"), (r"GB\b|gigabytes?\b", "GB"),
    (r"MB\b|megabytes?\b", "MB"), (r"[Kk]B\b|kilobytes?\b", "KB"), (r"Tb\b|Tbits?\b|Tbps\b", "Tbit"),
    (r"Gb\b|Gbits?\b|Gbps\b", "Gbit"), (r"Mb\b|Mbits?\b|Mbps\b", "Mbit"), (r"bytes?\b|B\b", "B"),
    (r"bits?\b", "bit"), (r"milliseconds?\b|msecs?\b|ms\b", "ms"),
    (r"microseconds?\b|[µμu]s(?:ecs?)?\b", "us"), (r"nanoseconds?\b|ns\b", "ns"),
    (r"seconds?\b|secs?\b|s\b", "s"), (r"minutes?\b|mins?\b", "min"), (r"hours?\b|hrs?\b|h\b", "h"),
    (r"days?\b", "day"), (r"kWh\b", "kWh"), (r"kW\b|kilowatts?\b", "kW"), (r"MW\b|megawatts?\b", "MW"),
    (r"W\b|[Ww]atts?\b", "W"), (r"[x×](?![\w])|X(?![\w])|-?fold\b|times\b(?! (?:per|a)\b)", "x"),
    (r"GPUs?\b|GPUS\b|accelerators?\b|cards?\b", "GPU"),
    (r"nodes?\b|servers?\b|hosts?\b|machines?\b", "node"), (r"param(?:eter)?s?\b", "parameter"),
    (r"layers?\b", "layer"), (r"experts?\b", "expert"), (r"users?\b", "user"), (r"sessions?\b", "session"),
    (r"ranks?\b", "rank"), (r"steps?\b", "step"), (r"runs?\b", "run"), (r"words?\b", "word"),
    (r"sequences?\b|seqs?\b|prompts?\b", "sequence"),
)  # fmt: skip
_PER = (
    (r"s\b|secs?\b|"
     r"seconds?\b", "s"), (r"ms\b", "ms"), (r"min\b|minutes?\b", "min"), (r"h\b|hrs?\b|hours?\b", "h"),
    (r"(?:(?:1|one|1\.0)\s?)?(?:M|million|mn)\s?(?:(?:output|input|total|"
     r"generated|prompt)\s)?(?:tokens?|toks?)\b|1,000,000 tokens\b|Mtoks?\b|MTok\b", "Mtoken"),
    (r"(?:(?:output|input|generated|prompt|decode|decoded)\s)?(?:tokens?|toks?)\b", "token"),
    (r"(?:NVIDIA\s|AMD\s|Instinct\s)?(?:[HBALV]\d{2,3}|GB?\d{3}|"
     r"MI\d{3}[XA]?|GH200|TPU)(?:\s(?:NVL\d+\s)?GPUs?)?\b", "GPU"),
    (r"GPUs?\b|gpus?\b|accelerators?\b", "GPU"), (r"nodes?\b|servers?\b", "node"), (r"users?\b", "user"),
    (r"requests?\b|"
     r"reqs?\b", "request"), (r"layers?\b", "layer"), (r"ranks?\b", "rank"), (r"steps?\b", "step"),
    (r"kW\b", "kW"), (r"MW\b", "MW"), (r"W\b", "W"), (r"params?(?:eters?)?\b", "parameter"),
)  # fmt: skip
GPU_MODEL = r"(?:[HBALV]\d{2,3}[A-Z]?|GB\d{3}|GH200|MI\d{3}[XA]?|L40S|RTX\s?\w+|TPU\sv\d\w?)"
ADJECTIVES = (
    r"(?:(?i:total|output|input|prompt|generated|generation|prefill|decode|"
    r"decoding|concurrent|active|activated|routed|shared|aggregate|"
    r"additional|new|NVIDIA|AMD|Instinct|Blackwell|Hopper|mean|median|"
    r"average|billion|cached|accepted|more|fewer|inference|compute|HBM|unique)|"
    + GPU_MODEL
    + r")"
)  # fmt: skip
UNIT = re.compile(
    rf"(?P<gap>[\s\u00a0\u202f\u2009]?-?[\s\u00a0]?)(?P<qual>(?:{ADJECTIVES}[\s-]+){{0,3}})"
    + "(?:" + "|".join(f"(?P<h{i}>{pattern})" for i, (pattern, _) in enumerate(_HEADS))
    + rf"|(?P<card>{GPU_MODEL}(?:\s(?:GPUs?|nodes?|servers?))?)(?![\w]))"
    + r"(?P<per>(?:(?:\s?/\s?|\sper\s|"
      r"\sa\s(?=second)|\seach\sfor\s|·)(?:" + "|".join(p for p, _ in _PER) + r")){0,3})"
)  # fmt: skip
_PER_PART = re.compile(
    r"(?:\s?/\s?|\sper\s|\sa\s|\seach\sfor\s|·)(?:"
    + "|".join(f"(?P<p{i}>{p})" for i, (p, _) in enumerate(_PER))
    + ")"
)

TIMES = {
    "K": 10**3,
    "k": 10**3,
    "M": 10**6,
    "B": 10**9,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "mn": 10**6,
    "bn": 10**9,
}

_SIGNS = {
    "~": "about",
    "≈": "about",
    "∼": "about",
    "≃": "about",
    "<": "at-most",
    "≤": "at-most",
    "<=": "at-most",
    ">": "over",
    "≥": "at-least",
    ">=": "at-least",
}
_WORDS = {
    word: hedge.name for hedge in HEDGES.values() for word in hedge.words if word not in ("some", "inside")
} | {
    "circa": "about",
    "approx.": "about",
    "approx": "about",
    "ca.": "about",
    "less than": "at-most",
    "fewer than": "at-most",
    "as much as": "at-most",
    "as many as": "at-most",
    "as little as": "at-least",
    "above": "over",
    "greater than": "over",
    "exceeding": "over",
    "maximum of": "at-most",
    "minimum of": "at-least",
    "beyond": "over",
    "sub-": "at-most",
    "well over": "over",
    "just over": "over",
    "just under": "near",
    "slightly over": "over",
    "slightly under": "near",
    "reaching up to": "at-most",
    "by up to": "at-most",
    "as high as": "at-most",
    "as low as": "at-least",
}
HEDGE_BEFORE = re.compile(
    r"(?i)(?:(?P<sign>[~≈∼≃]|<=|>=|[<>≤≥])\s?|(?<![\w-])(?P<word>"
    + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True))
    + r")(?:\s|(?<=-))(?:a\s|an\s|just\s|the\s)?)[$]?$"
)


def hedge_name(match: re.Match[str] | None) -> str:
    """The hedge of the table that a match of HEDGE_BEFORE stands for; no match is none."""
    if match is None:
        return ""
    return _SIGNS[match.group("sign")] if match.group("sign") else _WORDS[match.group("word").lower()]


def canonical(match: re.Match[str]) -> tuple[str, str]:
    """A match of UNIT as a unit of the table, and what qualifies it: `2.2k output tok/s/H200` ->
    tokens/s/GPU, output H200.
    """
    groups = match.groupdict()
    qualifier = (match.group("qual") or "").split()
    if match.group("card"):
        head = "GPU" if not re.search(r"nodes?|servers?", match.group("card")) else "node"
        qualifier.append(match.group("card").split()[0])
    else:
        head = next(unit for i, (_, unit) in enumerate(_HEADS) if groups[f"h{i}"])
        if head.endswith("bit") and match.group().rstrip().endswith("bps"):
            head += "/s"
    parts = []
    for part in _PER_PART.finditer(match.group("per") or ""):
        named = next(i for i in range(len(_PER)) if part.group(f"p{i}"))
        parts.append(_PER[named][1])
        if model := re.search(GPU_MODEL, part.group()):
            qualifier.append(model.group())
    unit = head + "".join(f"/{part}" for part in parts)
    if head.endswith("FLOP") and not parts and re.search(r"FLOPS\b|FLOPs\b|Flops\b", match.group()):
        unit += "/s"
    return unit, " ".join(qualifier)


@lru_cache(maxsize=4096)
def header_unit(text: str) -> tuple[str, str]:
    """The unit that a table's header names: `Throughput (tok/s/GPU)`, `TTFT [ms]`, `Speedup (x)`; empty
    if none.
    """
    for said in (
        *re.findall(r"[(\[]([^()\[\]]+)[)\]]", text)[::-1],
        *re.findall(r",\s*([^,]+)$", text),
        text,
    ):
        match = (
            UNIT.match(" " + said.strip().lstrip("# ")) if said is not text or len(text.strip()) > 1 else None
        )
        if match and match.end() >= len(said.strip()) and match.group("gap") != "":
            return canonical(match)
    match = next(
        (
            m
            for m in UNIT.finditer(" " + text)
            if m.group("per") and m.start() and text[m.start() - 1 : m.start()] != "."
        ),
        None,
    )
    if match:
        return canonical(match)
    if re.search(r"%", text):
        return "%", ""
    return "", ""


_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|"
    r"Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_REFERENCE = (
    r"(?:figures?|figs?\.?|tables?|tbl\.|sections?|secs?\.|chapters?|eqs?\.?|"
    r"equations?|appendix|listings?|algorithms?|steps?|stages?|phases?|"
    r"parts?|issues?|prs?|rfcs?|days?|overhead|options?|cases?|levels?|"
    r"tiers?|notes?|footnotes?|refs?\.?|lines?|pages?|pp?\.|gpus?|ranks?|"
    r"nodes?|instances?|stage|workers?|slots?|lanes?|experiments?|scenarios?|"
    r"configs?|configurations?|variants?|round|iteration|epochs?|gen|"
    r"version|release|ports?|chips?|socket|numa|cores?|cell|item|claim|"
    r"rule|question|q|layers?|bucket|turns?|abbildung|tabelle|abschnitt)"
)
_PRODUCT = (
    r"(?:CUDA|ROCm|cuDNN|NCCL|RCCL|PyTorch|Torch|Python|Ubuntu|Debian|Linux|"
    r"[Kk]ernel|vLLM|SGLang|TensorRT-LLM|TensorRT|TRT-LLM|Triton|FlashInfer|"
    r"FlashAttention|FA|Llama|LLaMA|Qwen|Gemma|Gemini|Claude|GPT|Grok|Phi|"
    r"Mistral|Mixtral|DeepSeek|Kimi|GLM|MiniMax|Nemotron|Hermes|EAGLE|Granite|"
    r"OLMo|Falcon|Yi|Command|PCIe(?:\sGen)?|NVLink|Gen|HTTP|TLS|CDNA|RDNA|"
    r"EPYC|Xeon(?:\s\w+)?|Ryzen|Wi-Fi|USB|DDR|HBM|ConnectX|BlueField|Thor|"
    r"Transformers|transformers|NumPy|Dynamo|NIXL|LMCache|Mooncake|TGI|AIBrix|"
    r"llm-d|KServe|Kubernetes|Ray|Docker|Driver|driver|firmware|Apache|AIME|"
    r"MATH|HumanEval|MLPerf(?:\sInference)?|AgentX|InferenceMAX|LongBench|"
    r"GSM|MMLU|Web|IPv|Stable Diffusion|SDXL|Sora|Wan|FLUX|Whisper|T|o)"
)
NAMES = re.compile(
    rf"""(?P<url>(?:https?://|www\.)\S+|\S+@\S+\.\w+|(?:[\w.~-]*/)+[\w.-]*\.(?:md|html?|py|json|ya?ml|toml|sh|txt|png|svg|gif|jpe?g|ipynb|csv|so|cpp|cu)\b)
    | (?P<path>(?<![\w])(?:/[\w.~-]+){{2,}}/?|(?:[\w.-]+/){{2,}}(?=[\w.-]*[A-Za-z_])[\w.-]*\d[\w.-]*)
    |
    (?P<date>\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T\s]\d{{2}}:\d{{2}}(?::\d{{2}})?)?\b|\b\d{{1,2}}/\d{{1,2}}/\d{{2,4}}\b|\b\d{{1,2}}\.\d{{1,2}}\.(?:19|20)\d{{2}}\b
    |\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:\s?[-–]\s?\d{{1,2}})?(?:,?\s(?:19|20)\d{{2}})?(?![\w.%]|,\d)|\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s{_MONTH}(?:\s(?:19|20)\d{{2}})?\b
    |\b{_MONTH}\s(?:19|20)\d{{2}}\b|\bQ[1-4][\s']+(?:19|20)?\d{{2}}\b|\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s?[ap]\.?m\.?)?\b)
    | (?P<ordinal>\b\d+(?:st|nd|rd|th)\b) |
    (?P<cite>\[\d+(?:\s?[,–-]\s?\d+)*\]|(?<![\w$])\#\s?\d+\b|§\s?\d[\d.]*) |
    (?P<reference>(?<![\w-])(?i:{_REFERENCE})(?:\s\#?|\#|-(?=\d))\(?\d+(?:\.\d+)*[a-zA-Z]?\)?(?:\s?(?:,|and|&|–|-|to|/|or|through)\s?(?:and\s)?\d+(?:\.\d+)*[a-z]?)*(?![\w%]|[.,]\d|\s?(?:%|[x×]\b|ms\b|GB\b|tok|k\b|K\b)))
    |
    (?P<version>\bv\d+(?:\.\d+)*[\w.+-]*|\b\d+\.\d+\.\d+[\w.+-]*|\b\d+(?:\.\d+)+(?:rc|dev|post|a|b)\d+[\w.+-]*)
    |
    (?P<product>\b{_PRODUCT}[\s]v?\d+(?:\.\d+)*(?![\d%]|\.\d|,\d|[KkMBT]?[\s-]?(?:ms|tok|GB|TB|%|[x×]|GPUs?|requests|tokens|nodes?|users)\b)(?:[A-Za-z][\w.-]*)?)
    | (?P<card>\b(?:[HBALVP]\d{{2,3}}|MI\d{{3}}[XA]?|GB\d{{3}}|T4|RTX\s?\w+)
    [\s-]\d{{2,3}}\s?GB\b(?!\s?(?:/s|HBM)))
    | (?P<degree>\b(?P<axis>D?TP|D?CP|PCP|DP|EP|PP|SP|CP|DEP|TEP)\s?=?\s?(?P<rank>\d+)(?![\w.])) |
    (?P<topology>\b(?P<pre>\d+)P\+?(?P<dec>\d+)D\b) |
    (?P<name>(?<![\w.])[^\W\d_][\w.@’']*(?:[-/+][\w.@’']+)*|_\w+)
    """,
    re.VERBOSE,
)
BEFORE = 40
