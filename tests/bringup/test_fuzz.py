"""Random cluster files and random --set: a plan or one line, and nothing that is said is silently ignored.

A small sample by default, a thousand of each in `make test-nightly` (`-s` prints the counts).
"""

from __future__ import annotations

import copy
import json
import random
import tomllib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from k3repro.bringup import (
    SECTIONS,
    Cluster,
    Plan,
    check_plan,
    cluster_text_of,
    hand_scripts,
    load_recipe,
    make_plan,
    parse_cluster,
)
from k3repro.bringup._cluster import cluster_of
from k3repro.cli.bringup import read_plan
from k3repro.errors import K3Error

SIZES = pytest.mark.parametrize("size", [30, pytest.param(1000, marks=pytest.mark.nightly)])
DOCUMENT = tomllib.loads(cluster_text_of("mi300x-cx7"))
RECIPE = load_recipe("kimi-k3-mi300x")

# Read while a serve is brought up, by a program and not by a script.
LATER = {
    ("slurm", "job"),
    ("twin", "sysroot"),
    ("twin", "simulated"),
    ("ssh", "known_hosts"),
    ("ssh", "identity"),
}
GOOD: dict[tuple[str, str], list[Any]] = {
    ("ssh", "user"): ["amd"], ("ssh", "port"): [2222], ("ssh", "known_hosts"): ["/k/hosts"],
    ("ssh", "identity"): ["/k/id"], ("slurm", "job"): ["77"], ("slurm", "partition"): ["gpu"],
    ("slurm", "account"): ["lab"], ("slurm", "qos"): ["long"], ("slurm", "reservation"): ["r1"],
    ("slurm", "memory"): ["512G"], ("slurm", "gres"): ["gpu:mi300x:8"],
    ("slurm", "output"): ["logs/%j.out"], ("slurm", "options"): [["--constraint=ib", "--switches=1"]],
    ("slurm", "time_minutes"): [33], ("fabric", "gid"): [5], ("fabric", "interface"): ["eno7"],
    ("container", "digest"): [f"sha256:{'a' * 64}"], ("container", "pull"): ["missing"],
    ("container", "before"): [["module load rocm"]], ("container", "numa"): ["interleave=all"],
    ("container", "engine"): [["bin-vllm", "serve"]], ("container", "router"): [["bin-router"]],
    ("twin", "simulated"): [True], ("twin", "sysroot"): ["/played"],
}  # fmt: skip
BAD = ["a b", "", -1, True, [], {}, "x", 1e9, "$(id)", "10.0.0.300", 3, "--x", "é", ["a\nb"]]
OVERRIDES = {"layout.max_num_seqs": 16, "env.all.MY_SWITCH": "1", "order.poll_s": 5, "layout.title": "mine",
             "ports.http": 20006, "nowhere.x": 1, "flags.all.--seed": 7}  # fmt: skip


def random_document(chance: random.Random) -> dict[str, Any]:
    raw = copy.deepcopy(DOCUMENT)
    raw["scheduler"] = chance.choice(("local", "ssh", "slurm", "slurm", "pbs"))
    raw["container"]["runtime"] = chance.choice(("docker", "podman", "apptainer", "pyxis", "process"))
    if chance.random() < 0.2:
        raw["nodes"] = {"count": 4}
    for (section, key), values in GOOD.items():
        if chance.random() < 0.25:
            value = chance.choice(values if chance.random() < 0.98 else BAD)
            raw.setdefault(section, {})[key] = value
    if chance.random() < 0.3:
        key = chance.choice(list(OVERRIDES))
        raw["recipe_overrides"] = {key: OVERRIDES[key]}
    if chance.random() < 0.1:
        raw[chance.choice(("fabrik", "slurms", "x"))] = chance.choice(BAD)
    return raw


def text_of(value: Any) -> str:
    """A value as TOML: its JSON, except that tables have equals signs."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(item) for item in value) + "]"
    return json.dumps(value)


def seen(plan: Plan) -> tuple[object, ...]:
    """Everything that a plan shows: commands, scripts, what rules say."""
    words = [(launch.engine, launch.env, launch.log, launch.node) for launch in plan.launches]
    return words, plan.router, sorted(hand_scripts(plan).items()), check_plan(plan)


def planned(cluster: Cluster) -> Plan:
    return make_plan(RECIPE, cluster)


def silent(raw: dict[str, Any]) -> list[tuple[str, str]]:
    """Keys of a document whose absence shows nowhere, although the default is another value."""
    whole, unseen = seen(planned(cluster_of(raw, "c.toml"))), []
    for section, key in GOOD:
        if key not in raw.get(section, {}) or (section, key) in LATER:
            continue
        less = copy.deepcopy(raw)
        del less[section][key]
        try:
            without = cluster_of(less, "c.toml")
        except K3Error:
            continue  # required
        same = replace(without, where="") == replace(cluster_of(raw, "c.toml"), where="")
        if not same and seen(planned(without)) == whole:
            unseen.append((section, key))
    return unseen


@SIZES
def test_random_cluster_files_are_plans_or_one_line_and_no_key_is_ignored(size: int) -> None:
    chance, counts = random.Random(22), Counter[str]()
    while sum(counts.values()) < size:
        raw = random_document(chance)
        text = "\n".join(f"{json.dumps(key)} = {text_of(value)}" for key, value in raw.items())
        if chance.random() < 0.1:
            spot = chance.randrange(len(text))
            text = text[:spot] + chance.choice('[]="{}#é\0') + text[spot + 1 :]
        try:
            seen(planned(parse_cluster(text, "c.toml")))
        except K3Error as error:
            assert str(error).strip() and "\n" not in str(error)
            counts["refused in one line"] += 1
            continue
        counts["planned"] += 1
        assert silent(tomllib.loads(text)) == []
    print(dict(counts))
    assert min(counts["planned"], counts["refused in one line"]) > size // 10


NAMES = [
    *("http", "max_num_seqs", "max_num_batched_tokens", "prefix_caching", "--block-size", "--seed", "x", ""),
    *(
        "K3_WRITE_READBACK",
        "vllm",
        "kv_role",
        "a b",
        "poll_s",
        "heap",
        "--policy",
        "num_workers",
        "MY_SWITCH",
    ),
    *("weights_gib", "post_batch_size", "all2all", "kv_pool_bytes", "--log-level", "é", "a=b"),
]
VALUES = [
    *(
        "",
        "0",
        "1",
        "16",
        "32",
        "-1",
        "true",
        "false",
        "null",
        "1e9",
        "x",
        "a b",
        "[1,2]",
        '{"a":1}',
        "$(id)",
    ),
    *("NaN", "Infinity", "9999999999999999999999", '"16"', "NONE", "debug", "[", "é", "kv_both"),
]


@SIZES
def test_random_settings_are_plans_or_one_line_and_none_is_ignored(size: int) -> None:
    chance, counts = random.Random(7), Counter[str]()
    before, known = seen(read_plan("mi300x-cx7", None, ())), [*SECTIONS, "layout", "nowhere", ""]
    for _ in range(size):
        section = chance.choice(known)
        of_recipe = list(RECIPE.sections.get(section, {})) or list(RECIPE.layout.__dataclass_fields__)
        key = f"{section}.{chance.choice(NAMES if chance.random() < 0.5 else of_recipe)}"
        setting = f"{key}{'=' * (chance.random() < 0.98)}{chance.choice(VALUES)}"
        try:
            plan = read_plan("mi300x-cx7", None, (setting,))
            after = seen(plan)
        except K3Error as error:
            assert str(error).strip() and "\n" not in str(error)
            counts["refused in one line"] += 1
            continue
        counts["planned"] += 1
        read_later = key.startswith(("order.", "memory.", "pins."))
        assert after != before or read_later or said_again(plan, key), setting
    print(dict(counts))
    assert counts["planned"] and counts["refused in one line"]


def said_again(plan: Plan, key: str) -> bool:
    """Whether the setting repeats the recipe's own value."""
    section, _, name = key.rpartition(".")
    if section == "layout":
        return bool(plan.recipe.layout == RECIPE.layout)
    old, new = (item.sections.get(section, {}).get(name) for item in (RECIPE, plan.recipe))
    return old is not None and new is not None and old.value == new.value
