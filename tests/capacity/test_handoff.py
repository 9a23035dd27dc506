"""The hand-off law: exact bytes counted by real connectors, and its formula."""

from __future__ import annotations

import pytest

from k3repro.capacity import Engine, block_law, evaluate, handoff, handoff_law
from k3repro.capacity.launches import law_of_launch
from k3repro.errors import InputError
from k3repro.spec import load_model

RANK = {
    "version": "0.26.0", "tp": 2, "kv_dtype": "fp8", "prefix_caching": False, "block_size": 128,
    "backend": "TRITON_MLA",
}  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "blocks"), [(1, 0), (1_024, 1), (5_761, 1), (5_762, 2), (8_192, 2), (64_000, 12)]
)
def test_state_of_every_slot_and_a_block_for_every_block_begun(prompt: int, blocks: int) -> None:
    law = law_of_launch(load_model("kimi-k3"), RANK)
    found = handoff(law, prompt)
    assert (found.state_pages, found.state_bytes, found.blocks) == (72, 3_256_320, blocks)
    assert found.bytes == 72 * 3_256_320 + blocks * 79_626_240
    assert evaluate(handoff_law(law).formula, {"prompt": float(prompt)}) == found.bytes


def test_a_model_without_state_hands_over_its_last_token_too() -> None:
    law = block_law(load_model("deepseek-v3"), Engine(version=(0, 26, 0), tp=8))
    found = handoff(law, law.block_tokens + 1)
    assert (found.state_pages, found.blocks) == (0, 2)


def test_time_on_a_link() -> None:
    found = handoff(law_of_launch(load_model("kimi-k3"), RANK), 1_024)
    assert found.seconds(50e9) == pytest.approx(found.bytes / 50e9)
    with pytest.raises(InputError, match="50e9"):
        found.seconds(0.0)


def test_no_prompt_hands_over_nothing() -> None:
    with pytest.raises(InputError, match="at least one token"):
        handoff(law_of_launch(load_model("kimi-k3"), RANK), 0)
