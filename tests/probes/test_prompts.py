"""Haystacks: exact word counts, reproducible, not repetitive, sized as the server counts."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import InputError
from k3repro.probes.prompts import filler, insert, sentences, words_digest
from k3repro.probes.sizing import Sizing
from k3repro.twin._tokenizer import count_tokens, pieces


@given(st.text(max_size=20), st.integers(1, 3000))
def test_a_haystack_has_exactly_the_words_asked_for(seed: str, words: int) -> None:
    for text in (sentences(seed, words), filler(seed, words)):
        assert sum(len(sentence.split(" ")) for sentence in text) == words


def test_another_process_builds_the_same_haystack() -> None:
    code = "from k3repro.probes.prompts import filler; print(hash(1)); print(' '.join(filler('7/x', 300)))"
    options = {"PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=options, check=True
    )
    assert done.stdout.splitlines()[1] == " ".join(filler("7/x", 300))


def test_nothing_repeats() -> None:
    text = sentences("hay", 50_000)
    assert len(set(text)) > 0.999 * len(text)
    first, second = filler("seed/a", 200), filler("seed/b", 200)
    assert not set(first) & set(second)


def test_the_word_lists_are_pinned() -> None:
    assert words_digest() == "eea421546d16f12fbdc4525f4c9d185393597247c8d974621988c2756026de93"


def test_the_text_is_pinned() -> None:
    """Prompts of a sealed run are rebuilt from its seed."""
    text = [*(one for n in range(1, 60) for one in sentences(f"p{n}", n * 7)), *filler("p", 900)]
    found = hashlib.sha256("\n".join([*text, *sentences("q", 20_000)]).encode()).hexdigest()
    assert found == "9bc9929d67c45d8247bc52696bdd04bb419a591d04fa81102d10aeb3c53e77e7"


@given(
    st.lists(st.sampled_from(["a", "Zq9", " ", ".", "\n", "é", "\ud800", "lamp", "  "]), min_size=50),
    st.booleans(),
)
def test_tokens_are_counted_as_they_are_cut(parts: list[str], plain: bool) -> None:
    text = "".join(parts) * (1 + 1000 // len(parts))
    text = text.encode("ascii", "ignore").decode() if plain else text
    assert count_tokens(text) == len(pieces(text))


@pytest.mark.parametrize("target", [1024, 8000, 50_000])
def test_sizing_hits_the_target_within_the_limit(target: int) -> None:
    counts = {words: count_tokens(" ".join(filler(f"c{words}", words))) for words in (200, 2000)}
    sizing = Sizing.from_counts((200, counts[200]), (2000, counts[2000]))
    sizes = [count_tokens(" ".join(filler(f"s{n}", sizing.words(target)))) for n in range(20)]
    assert max(abs(size / target - 1) for size in sizes) < 0.05
    assert abs(sum(sizes) / len(sizes) / target - 1) < 0.02


def test_a_server_that_counts_backwards_cannot_size_prompts() -> None:
    with pytest.raises(InputError, match="do not grow"):
        Sizing.from_counts((200, 500), (2000, 500))


@given(st.lists(st.text(min_size=1), max_size=30), st.floats(0, 1))
def test_the_needle_is_put_once_and_nothing_else_moves(text: list[str], depth: float) -> None:
    with_needle = insert(text, "NEEDLE!", depth)
    at = round(depth * len(text))
    assert with_needle[at] == "NEEDLE!" and with_needle[:at] + with_needle[at + 1 :] == text


def test_bad_sizes_and_depths_are_refused() -> None:
    with pytest.raises(InputError, match="0 words"):
        sentences("s", 0)
    with pytest.raises(InputError, match="depth"):
        insert(["a"], "n", 1.5)
