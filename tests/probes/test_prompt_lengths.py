"""Prompts of 64 to 64K tokens on servers with other tokenizers than ours: valid as the server counts them."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import k3repro
from k3repro.client import Outcome, RequestRecord
from k3repro.errors import InputError
from k3repro.probes._session import plain_prompt
from k3repro.probes.checks import prompt_reasons
from k3repro.probes.counting import FileCounter, ServerCounter, counter_of
from k3repro.probes.plan import MORE_WORDS, Rung, calibration_words
from k3repro.probes.sizing import Sizing

TEMPLATE = 11  # tokens that a chat template adds
KINDS = ("bpe", "wordpiece", "unigram", "bytes")


@cache
def tokenizer(kind: str) -> Any:
    """A tokenizer of its family, trained on sources of this package, which prompts do not resemble."""
    quiet: dict[str, Any] = {"show_progress": False}
    if kind == "bpe":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=6000, initial_alphabet=alphabet, **quiet)
    elif kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=6000, special_tokens=["[UNK]"], **quiet)
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=4000, unk_token="<unk>", special_tokens=["<unk>"], **quiet
        )
    sources = sorted((Path(k3repro.__file__).parent / "probes").glob("*.py"))
    made.train_from_iterator([path.read_text("utf-8") for path in sources], trainer)
    return made


class Counts:
    name = "a tokenizer"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def counts(self, texts: Any) -> list[int]:
        if self.kind == "bytes":
            return [len(text.encode()) for text in texts]
        return [len(found.ids) for found in tokenizer(self.kind).encode_batch(list(texts))]


def sizes(kind: str, counted: bool, target: int, count: int, seed: int) -> list[int]:
    """Tokens of `count` prompts for `target`, as the server of this kind counts them."""
    counter = Counts(kind)
    words = calibration_words() + (() if counted else MORE_WORDS)
    prompts = [plain_prompt(f"{seed}/calibration-{n}-{size}", size) for n, size in enumerate(words)]
    tokens = [found + TEMPLATE for found in counter.counts(prompts)]
    sizing = Sizing.from_counts(*zip(words, tokens, strict=True))
    sizing = sizing.counted_by(counter, prompts, tokens) if counted else sizing
    builds = {f"r{n}": partial(plain_prompt, f"{seed}/con={target}-{n}") for n in range(count)}
    made = sizing.prompts(builds, dict.fromkeys(builds, target))
    return [found + TEMPLATE for found in counter.counts(made.values())]


def reasons(counts: list[int], target: int) -> list[str]:
    rung = Rung("con", len(counts), len(counts), target, 1)
    records = [
        RequestRecord(f"r{n}", "con", Outcome.COMPLETED, 200, "length", None, 0, 0, 1, 2, 3, found, 1, 0, 1,
                      1, "", None)
        for n, found in enumerate(counts)
    ]  # fmt: skip
    return prompt_reasons(rung, records)


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "calibrated"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_length_is_valid_with_every_tokenizer(kind: str, counted: bool) -> None:
    for target in (64, 128, 256, 512, 2048, 8192, 65_536):
        for seed in range(3 if target <= 2048 else 1):
            for count in (1, 8) if target <= 8192 else (1,):
                found = sizes(kind, counted, target, count, seed)
                assert reasons(found, target) == [], (target, seed, found)


def test_a_counter_brings_short_prompts_closer_than_calibration_does() -> None:
    off = {
        counted: sum(abs(n - 512) for seed in range(4) for n in sizes("bpe", counted, 512, 8, seed))
        for counted in (True, False)
    }
    assert off[True] * 2 < off[False]


def test_half_the_length_is_not_valid_and_neither_are_many_that_are_off() -> None:
    assert reasons([880, *[1000] * 9], 1000) == [], "one of ten may miss, but not by more than half"
    assert reasons([400, *[1000] * 9], 1000) and reasons([1100] * 3 + [1000] * 7, 1000)


def test_a_tokenizer_of_another_model_is_refused() -> None:
    texts = [plain_prompt(f"s{n}", n) for n in (50, 500)]
    sizing = Sizing(0.0, 1.5)
    with pytest.raises(InputError, match="--tokenizer none"):
        sizing.counted_by(Counts("bpe"), texts, Counts("bytes").counts(texts))


def test_a_file_or_its_folder_is_a_counter_and_nonsense_is_not(tmp_path: Path) -> None:
    tokenizer("bpe").save(str(tmp_path / "tokenizer.json"))
    for place in (tmp_path, tmp_path / "tokenizer.json"):
        found = counter_of(None, str(place))
        assert isinstance(found, FileCounter) and found.counts(["the harbour"]) == Counts("bpe").counts(
            ["the harbour"]
        )
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        counter_of(None, str(tmp_path / "other.json"))
    assert counter_of(None, "none") is None


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("prompt", {"count": 3}),
        ("content", {"tokens": [1, 2, 3]}),
        ("inputs", [{"id": 1}, {"id": 2}, {"id": 3}]),
    ],
)
def test_the_endpoints_of_four_servers_are_known(form: str, answer: Any) -> None:
    class Fetched:
        def __init__(self, status: int, json: Any) -> None:
            self.status, self.json = status, json

    class Target:
        model, subject = "m", "here"

        async def fetch(self, path: str, document: Any, *, timeout_s: float) -> Fetched:
            if path != "/tokenize" or form not in document:
                return Fetched(404, None)
            short = document[form] == "a b c"
            return Fetched(200, answer if short else {"count": 12})

        def run(self, function: Any, *arguments: Any) -> Any:
            import asyncio

            return asyncio.run(function(self, *arguments))

    found = counter_of(Target())
    assert isinstance(found, ServerCounter) and found.counts(["a b c"]) == [3]
