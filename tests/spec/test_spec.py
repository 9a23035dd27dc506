"""Shipped specs: every field has a source, unknown stays unknown, wrong files are refused in one sentence."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from k3repro import spec
from k3repro.errors import SpecError
from k3repro.spec._document import all_documents, parse_document


def test_published_facts_of_k3() -> None:
    model = spec.load_model("K3")
    assert (len(model.layers_of("mla")), len(model.layers_of("kda")), model.num_layers) == (24, 69, 93)
    assert model.layers_of("mla")[-2:] == (91, 92)
    assert model.source("mla.kv_lora")


@pytest.mark.parametrize("kind", ["models", "platforms", "layouts"])
def test_every_field_has_a_source(kind: str) -> None:
    for document in all_documents(kind):
        for section, values in document.sections.items():
            for field in values:
                assert document.sources[f"{section}.{field}"].strip(), (document.where, section, field)


def test_an_unknown_field_says_why_and_is_none() -> None:
    for platform in spec.platforms():
        for name in platform.unknown:
            assert getattr(platform, name) is None


def test_driver_bytes_are_not_the_nominal_gigabytes() -> None:
    assert spec.load_platform("mi325x").hbm_bytes == 256 * 2**30 - 16 * 2**20
    assert spec.load_platform("mi300x").hbm_bytes == 192 * 2**30 - 16 * 2**20


CROSS = ("llama-3.1-405b", "deepseek-v3.2", "qwen3-vl-235b", "kimi-k2.5")


@pytest.mark.parametrize("model", CROSS)
def test_a_single_node_layout_has_one_engine_and_no_prefill_pool(model: str) -> None:
    layout = spec.layout_for(model, "mi325x")
    assert layout is not None and layout.aggregated and layout.nodes == 1
    assert layout.gpus == (4 if model == "kimi-k2.5" else 8) <= spec.load_platform("mi325x").gpus_per_node
    free = spec.load_platform("mi325x").hbm_bytes - layout.kv_pool_bytes
    assert free * layout.gpus > 400e9  # the weights, at least


def test_a_pool_of_two_kinds_is_not_aggregated() -> None:
    layout = spec.load_layout("k3-2p2d-mi325x")
    assert not layout.aggregated and layout.gpus == 16


def test_vocabulary_holds_names_only() -> None:
    words = spec.vocabulary()
    assert {"Kimi-K3", "MI300X", "MI325X", "gfx942", "MXFP4", "EP16", "TP2", "CDNA 3"} <= words
    assert all(any(character.isalpha() for character in word) for word in words)


@pytest.mark.parametrize(
    "text",
    [
        "name = ",
        'title = "x"',
        'name = "x"\n[model]\nheads = 3',
        'name = "x"\n[model]\nheads = [3, "nowhere"]',
        'name = "x"\nheads = 3',
    ],
)
def test_a_file_without_sources_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"here"):
        parse_document(text, "here")


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="mi300x"):
        spec.load_platform("mi999x")
    with pytest.raises(SpecError, match="no such spec file"):
        spec.load_model(str(tmp_path / "absent.toml"))


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('name = "m"\n[sources]\ns = "s"\n[platform]\nwarp = [9, "s"]\n')
    with pytest.raises(SpecError, match=r"m\.toml"):
        spec.load_platform(str(path))


def test_all_is_sorted_and_frozen() -> None:
    assert list(spec.__all__) == sorted(spec.__all__)
    for name in spec.__all__:
        thing = getattr(spec, name)
        if is_dataclass(thing):
            assert fields(thing)
