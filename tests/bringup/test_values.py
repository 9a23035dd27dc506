"""Whatever a knob is set to, the plan is made or refused by name: never a traceback, never a broken word."""

from __future__ import annotations

import copy
import json
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.bringup import (
    check_plan,
    cluster_text_of,
    container_argv,
    hand_scripts,
    load_cluster,
    load_recipe,
    make_plan,
    parse_cluster,
)
from k3repro.bringup._cluster import cluster_of
from k3repro.bringup._recipe import SECTIONS
from k3repro.bringup._up import ports_of
from k3repro.errors import SpecError, UsageError

CLUSTER = load_cluster("mi300x-cx7")
RECIPE = load_recipe(CLUSTER.recipe)
KEYS = [f"{section}.{name}" for section in SECTIONS for name in RECIPE.sections[section]]
KEYS += [f"layout.{name}" for name in RECIPE.layout.__dataclass_fields__]
KEYS += ["env.all.a b", "env.all.-i", "flags.all.x", "flags.all.", "layout.", "order.new", "nowhere.x"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.text(max_size=4), inner, max_size=2), max_leaves=4)  # fmt: skip


@given(st.sampled_from(KEYS), VALUES)
def test_a_value_makes_a_plan_or_is_refused(key: str, value: object) -> None:
    try:
        plan = make_plan(RECIPE.with_overrides({key: value}), CLUSTER)
        for launch in plan.launches:
            ports_of(plan, launch.node)
        check_plan(plan)
        hand_scripts(plan)
    except UsageError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [("env.all.A B", "1"), ("env.all.-i", "1"), ("env.all.A=B", "1"), ("env.all.A", [1]), ("env.all.A", "\0"),
     ("flags.all.serve", "x"), ("flags.all.--a b", "x"), ("ports.http", "x"), ("ports.http", 0),
     ("ports.http", 65536), ("ports.http", None), ("layout.tp", 0), ("layout.tp", "2"), ("layout.tp", True),
     ("layout.kv_pool_bytes", 1.5), ("layout.cudagraph", 3), ("layout.prefix_caching", 1),
     ("layout.sources", {}), ("order.grace_s", -1), ("order.grace_s", float("inf")),
     ("layout.dp", 13e9), ("memory.weights_gib", "x"), ("transfer.roles", 7), ("transfer.roles", ["router"]),
     ("container.flags", True), ("pins.vllm", None)],
)  # fmt: skip
def test_a_value_of_another_kind_is_refused_with_its_place(key: str, value: object) -> None:
    with pytest.raises(SpecError, match=key.split(".")[0]):
        RECIPE.with_overrides({key: value})


def test_numbers_and_documents_are_written_as_engines_read_them() -> None:
    document = {"cudagraph_mode": "NONE", "custom_ops": ["+quant_fp8"]}
    changes = {"layout.kv_pool_bytes": 13e9, "flags.all.--compilation-config": document}
    launch = make_plan(RECIPE.with_overrides(changes), CLUSTER).launch("decode_master")
    assert launch.flag("--kv-cache-memory-bytes") == "13000000000"
    assert json.loads(launch.flag("--compilation-config") or "") == document


@pytest.mark.parametrize("folder", ["/lo gs", "/a'b", "/x; touch y", "/$(touch y)"])
def test_folders_inside_the_container_stay_one_word(folder: str) -> None:
    plan = make_plan(RECIPE.with_overrides({"container.logs": folder}), CLUSTER)
    words = shlex.split(container_argv(plan.launch("decode_master"), plan, "m")[-1])
    assert f"{folder}/vllm_decode_master.log" in words


def test_another_image_mount_or_runtime_flag_is_another_plan() -> None:
    plan = make_plan(RECIPE, CLUSTER)
    others = [make_plan(RECIPE, replace(CLUSTER, image="other:1")),
              make_plan(RECIPE, replace(CLUSTER, userspace=())),
              make_plan(RECIPE, replace(CLUSTER, model="/elsewhere")),
              make_plan(RECIPE.with_overrides({"container.flags": ["--ipc", "host"]}), CLUSTER)]  # fmt: skip
    assert len({plan.digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [('runtime = "docker"', 'runtime = "docker"\ndigest = "sha256:1; touch x"'),
     ('runtime = "docker"', 'runtime = "docker"\ndigest = 7'),
     ("[paths]", '[twin]\nsysroot = "/a b"\n[paths]'), ("[paths]", '[twin]\nsimulated = "no"\n[paths]'),
     ('"192.0.2.11"', "167"), ('runtime = "docker"', 'runtime = "docker"\nengine = []'),
     ('scheduler = "slurm"', 'scheduler = "slurm"\nrecipe_overrides = [[1]]')],
)  # fmt: skip
def test_what_a_shell_or_library_could_misread_is_refused(old: str, new: str) -> None:
    text = cluster_text_of("mi300x-cx7")
    assert old in text
    with pytest.raises(SpecError):
        parse_cluster(text.replace(old, new), "c.toml")


DOCUMENT = tomllib.loads(cluster_text_of("mi325x-thor2"))
SPOTS = [(key,) for key in [*DOCUMENT, "twin", "slurm", "recipe_overrides"]] + [
    (section, key)
    for section in ("nodes", "ssh", "fabric", "container", "paths", "slurm", "twin")
    for key in [*DOCUMENT.get(section, {}), "job", "digest", "engine", "router", "simulated", "sysroot"]
]


@given(st.sampled_from(SPOTS), VALUES.filter(lambda value: value is not None))
def test_a_cluster_with_any_value_anywhere_makes_a_plan_or_is_refused(
    spot: tuple[str, ...], value: object
) -> None:
    raw = copy.deepcopy(DOCUMENT)
    if len(spot) == 2:
        raw.setdefault(spot[0], {})[spot[1]] = value
    else:
        raw[spot[0]] = value
    try:
        cluster = cluster_of(raw, "c.toml")
        hand_scripts(make_plan(load_recipe("kimi-k3-mi325x"), cluster))
    except UsageError as error:
        assert str(error)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"name = ", b"name = 1", b"", b"choice = [3]\nname='x'"])
def test_a_file_of_other_bytes_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(content)
    for load in (load_cluster, load_recipe):
        with pytest.raises(SpecError):
            load(str(tmp_path / "x.toml"))


def test_addresses_of_ip_six_stand_in_brackets_in_urls() -> None:
    nodes = tuple(replace(node, address=f"fd00::{i}") for i, node in enumerate(CLUSTER.nodes, start=1))
    plan = make_plan(RECIPE, replace(CLUSTER, nodes=nodes))
    assert "http://[fd00::3]:20005" in plan.router.argv and plan.router.url == "http://[fd00::3]:30000"
