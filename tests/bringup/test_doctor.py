"""doctor on a played /sys: the real script through the real parser, healthy once and broken in every way."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from k3repro.bringup import (
    CHECKS,
    DoctorCell,
    Local,
    Mount,
    NodeFacts,
    Plan,
    arch_name,
    judge_facts,
    load_cluster,
    load_recipe,
    make_plan,
    probe_script,
    read_probe,
)
from k3repro.cli import root
from k3repro.errors import SpecError

RAILS = ("mlx5_0", "mlx5_2")
GIB = 2**30


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def machine(folder: Path) -> Path:
    """A healthy node: eight idle cards, two rails, drivers, a checkpoint."""
    root = folder / "root"
    for i in range(8):
        write(
            root / f"sys/class/kfd/kfd/topology/nodes/{i + 1}/properties",
            "simd_count 1216\ngfx_target_version 90402",
        )
        write(root / f"sys/class/drm/card{i}/device/mem_info_vram_used", str(300 * 2**20))
        write(root / f"sys/class/drm/card{i}/device/mem_info_vram_total", str(192 * GIB))
    write(root / "sys/class/kfd/kfd/topology/nodes/0/properties", "simd_count 0\ngfx_target_version 0")
    for index, rail in enumerate(RAILS):
        port = root / f"sys/class/infiniband/{rail}/ports/1"
        write(port / "state", "4: ACTIVE")
        write(port / "gids/3", f"0000:0000:0000:0000:0000:ffff:c000:020{index}")
        write(port / "gid_attrs/types/3", "RoCE v2")
        write(port / "gid_attrs/ndevs/3", f"rail{index}")
        write(root / f"proc/sys/net/ipv4/conf/rail{index}/rp_filter", "2")
    write(root / "proc/sys/net/ipv4/conf/all/rp_filter", "0")
    write(root / "proc/sys/kernel/numa_balancing", "0")
    for module in ("amdgpu", "mlx5_core", "amdgpu_peermem"):
        write(root / f"sys/module/{module}/version", "6.12.12")
    model = folder / "model"
    write(model / "config.json", "{}")
    write(
        model / "model.safetensors.index.json", '{"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}}'
    )
    for i in (1, 2):
        write(model / f"x-{i}.safetensors", "")
    write(folder / "libibverbs.so", "")
    return root


def plan_of(folder: Path) -> Plan:
    loaded = load_cluster("mi300x-cx7")
    nodes = tuple(replace(node, address=f"127.0.0.{90 + i}") for i, node in enumerate(loaded.nodes))
    cluster = replace(
        loaded, scheduler="local", runtime="process", nodes=nodes, rails=RAILS, simulated=True,
        engine=("sh",), router=("sh",),
        sysroot=str(folder / "root"), model=str(folder / "model"), logs=str(folder / "logs"),
        cache=str(folder / "cache"), userspace=(Mount(str(folder / "libibverbs.so"), "/x"),),
    )  # fmt: skip
    return make_plan(load_recipe(cluster.recipe), cluster)


def look(folder: Path, plan: Plan | None = None) -> NodeFacts:
    plan = plan or plan_of(folder)
    asked = time.time()
    result = asyncio.run(Local().run(plan.cluster.nodes[0], probe_script(plan.cluster, [1])))
    return read_probe(plan.cluster.nodes[0].host, result.out, asked, time.time())


def cells(folder: Path, others: tuple[NodeFacts, ...] = ()) -> dict[str, DoctorCell]:
    plan = plan_of(folder)
    mine = look(folder, plan)
    everybody = {mine.host: mine} | {f"other{i}": other for i, other in enumerate(others)}
    return {cell.check: cell for cell in judge_facts(mine, plan, everybody)}


LIMITS = {"memlock", "disk", "leftovers", "render-group"}  # of this very machine


def test_a_healthy_node_is_green(tmp_path: Path) -> None:
    machine(tmp_path)
    found = cells(tmp_path)
    assert set(found) == {"reachable", *CHECKS}
    red = {
        name: cell for name, cell in found.items() if cell.state not in {"ok", "n/a"} and name not in LIMITS
    }
    assert not red, red


def change(path: str, text: str) -> Callable[[Path], None]:
    return lambda folder: write(folder / path, text)


def remove(path: str) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        target = folder / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    return do


def folder_of(path: str) -> Callable[[Path], None]:
    """What a container runtime makes of a mount whose source is missing."""

    def do(folder: Path) -> None:
        (folder / path).unlink()
        (folder / path).mkdir()

    return do


CARD = "root/sys/class/drm/card3/device/mem_info_vram_used"
KFD = "root/sys/class/kfd/kfd/topology/nodes/1"
LOCAL_GID = "fe80:0000:0000:0000:0000:0000:0000:0001"
RAIL = "root/sys/class/infiniband/mlx5_2"
BROKEN: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "another GPU": ("architecture", change(f"{KFD}/properties", "gfx_target_version 90500"), "gfx950"),
    "a card is missing": ("architecture", remove(KFD), "7 x gfx942"),
    "a tenant": ("memory-idle", change(CARD, str(178 * GIB)), "178.0"),
    "a GPU process": ("leftovers", change("root/sys/class/kfd/kfd/proc/1/pasid", "1"), "GPU in use"),
    "a rail is down": ("rails", change(f"{RAIL}/ports/1/state", "1: DOWN"), "mlx5_2 DOWN"),
    "a rail is absent": ("rails", remove(RAIL), "mlx5_2 absent"),
    "NUMA balancing": ("numa-balancing", change("root/proc/sys/kernel/numa_balancing", "1"), "on"),
    "a library became a folder": ("userspace", folder_of("libibverbs.so"), "is a folder"),
    "link-local GID": ("gid", change(f"{RAIL}/ports/1/gids/3", LOCAL_GID), "mlx5_2"),
    "RoCE v1": ("gid", change(f"{RAIL}/ports/1/gid_attrs/types/3", "IB/RoCE v1"), "mlx5_2"),
    "strict filtering": ("routes", change("root/proc/sys/net/ipv4/conf/rail1/rp_filter", "1"), "rail1"),
    "no NIC driver": ("driver", remove("root/sys/module/mlx5_core"), "mlx5_core"),
    "no verbs library": ("userspace", remove("libibverbs.so"), "libibverbs.so"),
    "no peermem": ("peermem", remove("root/sys/module/amdgpu_peermem"), "dma-buf"),
    "no checkpoint": ("config", remove("model/config.json"), "config.json"),
    "half a checkpoint": ("config", remove("model/x-2.safetensors"), "1 of 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_red_with_a_fix(name: str, tmp_path: Path) -> None:
    check, breaking, said = BROKEN[name]
    machine(tmp_path)
    breaking(tmp_path)
    cell = cells(tmp_path)[check]
    assert cell.state == ("unknown" if check == "peermem" else "bad")
    assert said in cell.seen and cell.fix


def test_a_folder_where_a_library_should_be_is_no_library(tmp_path: Path) -> None:
    machine(tmp_path)
    (tmp_path / "libibverbs.so").unlink()
    (tmp_path / "libibverbs.so").mkdir()
    assert cells(tmp_path)["userspace"].state == "bad"


def test_nodes_that_differ_from_the_others(tmp_path: Path) -> None:
    machine(tmp_path)
    others = tuple(look(tmp_path) for _ in range(2))
    for other in others:
        other.config_sha = "f" * 64
        other.modules = dict.fromkeys(other.modules, "6.13.0")
    found = cells(tmp_path, others)
    assert found["config"].state == found["driver"].state == "bad"
    assert "other nodes" in found["config"].fix


@pytest.mark.parametrize(
    ("skew", "delay", "state"), [(0.2, 0.1, "ok"), (5.0, 0.1, "bad"), (-5.0, 0.1, "bad"), (1.5, 2.0, "ok")]
)
def test_clock_skew_counts_beyond_what_the_network_explains(skew: float, delay: float, state: str) -> None:
    out = f"==clock==\n{1000 + delay / 2 + skew:.6f}\n"
    facts = read_probe("pm", out, 1000.0, 1000.0 + delay)
    plan = make_plan(load_recipe("kimi-k3-mi300x"), load_cluster("mi300x-cx7"))
    assert next(cell for cell in judge_facts(facts, plan, {}) if cell.check == "clock").state == state


OWNERS = """port 0.0.0.0:20005 users:(("python3",pid=77,fd=4))
port 127.0.0.1:30000 users:(("x",pid=78,fd=4))
mark 4242 up-deadbeef:decode_master
container k3disagg_decode_master up-deadbeef:decode_master
"""


def test_ports_and_leftovers_name_their_owner() -> None:
    plan = make_plan(load_recipe("kimi-k3-mi300x"), load_cluster("mi300x-cx7"))
    facts = read_probe("pm", f"==owners==\n{OWNERS}", 0, 0)
    found = {cell.check: cell for cell in judge_facts(facts, plan, {"pm": facts})}
    assert "port 20005 (python3 pid 77)" in found["ports"].seen and "30000" not in found["ports"].seen
    assert "up-deadbeef" in found["leftovers"].seen and "k3disagg_decode_master" in found["leftovers"].seen


@pytest.mark.parametrize(
    ("image", "digest", "state"),
    [
        ("sha256:aaa name@sha256:" + "b" * 64, "", "ok"),
        ("sha256:aaa name@sha256:" + "b" * 64, "sha256:" + "c" * 64, "bad"),
        ("Error: No such image", "", "bad"),
        ("", "", "bad"),
    ],
)
def test_the_image_is_there_and_the_right_one(image: str, digest: str, state: str) -> None:
    plan = make_plan(load_recipe("kimi-k3-mi300x"), replace(load_cluster("mi300x-cx7"), digest=digest))
    facts = read_probe("pm", f"==image==\n{image}\n", 0, 0)
    found = {cell.check: cell for cell in judge_facts(facts, plan, {"pm": facts})}
    assert found["image"].state == state


@pytest.mark.parametrize(
    ("number", "name"), [(90402, "gfx942"), (90500, "gfx950"), (90010, "gfx90a"), (100300, "gfx1030")]
)
def test_kfd_numbers(number: int, name: str) -> None:
    assert arch_name(number) == name


def test_garbage_is_unknown_or_red_and_never_a_crash() -> None:
    plan = make_plan(load_recipe("kimi-k3-mi300x"), load_cluster("mi300x-cx7"))
    for text in (
        "",
        "==vram==\nx y\n==rails==\n|||\n==clock==\nnan\n==disk==\n/a b c\n==modules==\nz\n",
        "\0" * 50,
    ):
        facts = read_probe("pm", text, 0, 0)
        found = judge_facts(facts, plan, {"pm": facts})
        assert {cell.state for cell in found} <= {"ok", "bad", "unknown", "n/a"}
        assert not [cell for cell in found if cell.state == "bad" and not cell.fix]


def test_a_node_that_does_not_answer_is_one_red_cell() -> None:
    plan = make_plan(load_recipe("kimi-k3-mi300x"), load_cluster("mi300x-cx7"))
    found = judge_facts(NodeFacts("pm", error="ssh failed"), plan, {})
    assert [(cell.check, cell.state) for cell in found] == [("reachable", "bad")]


def test_the_command_on_a_twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path / "state"))
    machine(tmp_path)
    text = f"""name = "t"
recipe = "kimi-k3-mi300x"
scheduler = "local"
[nodes]
prefill_master = {{ host = "n1", address = "127.0.0.91" }}
prefill_worker = {{ host = "n2", address = "127.0.0.92" }}
decode_master = {{ host = "n3", address = "127.0.0.93" }}
decode_worker = {{ host = "n4", address = "127.0.0.94" }}
[fabric]
kind = "mlx5"
rails = ["mlx5_0"]
interface = "lo"
gid = 3
[container]
runtime = "process"
[paths]
model = "{tmp_path}/model"
logs = "{tmp_path}/logs"
cache = "{tmp_path}/cache"
[twin]
simulated = true
"""
    (tmp_path / "t.toml").write_text(text)
    result = CliRunner().invoke(root, ["doctor", "--cluster", str(tmp_path / "t.toml"), "--json"])
    document = json.loads(result.stdout)
    states = {(cell["check"], cell["node"]): cell["state"] for cell in document["cells"]}
    assert states["rails", "n1"] == "n/a" and states["reachable", "n4"] == "ok"
    assert "leftovers" in {check for check, _ in states}
    result = CliRunner().invoke(root, ["doctor", "--cluster", str(tmp_path / "t.toml")])
    assert "n3" in result.output and "checks on 4 nodes" in result.output


@pytest.mark.parametrize(("value", "state"), [("@fabric.rails", "bad"), ("=@fabric.rails", "ok")])
def test_a_device_whose_name_begins_like_a_rail_is_named(value: str, state: str) -> None:
    loaded = replace(load_cluster("mi300x-cx7"), rails=("mlx5_0", "mlx5_1"))
    recipe = load_recipe("kimi-k3-mi300x").with_overrides({"env.all.NCCL_IB_HCA": value})
    names = ("mlx5_0", "mlx5_1", "mlx5_10")
    facts = read_probe("pm", "==rails==\n" + "".join(f"{name}|4: ACTIVE|||\n" for name in names), 0, 0)
    cells = judge_facts(facts, make_plan(recipe, loaded), {"pm": facts})
    cell = next(cell for cell in cells if cell.check == "rails")
    assert cell.state == state and ("mlx5_10 as well" in cell.seen) == (state == "bad")


ADDRESSES = "==addresses==\nlo 127.0.0.1\neth0 192.0.2.11\neth0 192.0.2.99\n"


@pytest.mark.parametrize(
    ("probe", "state", "said"),
    [
        (ADDRESSES, "ok", "eth0 192.0.2.11"),
        (ADDRESSES.replace("eth0", "ens3"), "bad", "no IPv4 address on eth0"),
        (ADDRESSES.replace(".11", ".12"), "bad", "192.0.2.11 is not this node's"),
        ("", "unknown", "ip says nothing"),
    ],
)
def test_interface_and_address_are_the_nodes_own(probe: str, state: str, said: str) -> None:
    cell = judged(probe)["address"]
    assert (cell.state, cell.seen) == (state, said) and bool(cell.fix) == (state != "ok")


def judged(probe: str, others: str = "", **fields: Any) -> dict[str, DoctorCell]:
    plan = make_plan(load_recipe("kimi-k3-mi300x"), replace(load_cluster("mi300x-cx7"), **fields))
    facts = read_probe("pm", probe, 0, 0)
    everybody = {"pm": facts} | {name: read_probe(name, others, 0, 0) for name in ("pw", "dm") if others}
    return {cell.check: cell for cell in judge_facts(facts, plan, everybody)}


@pytest.mark.parametrize(
    ("mine", "state"), [("file 9 aa", "ok"), ("file 9 ab", "bad"), ("file 8 aa", "bad"), ("", "bad")]
)
@pytest.mark.parametrize("runtime", ["apptainer", "pyxis"])
def test_an_image_file_is_there_and_the_same_everywhere(runtime: str, mine: str, state: str) -> None:
    found = judged(f"==image==\n{mine}\n", "==image==\nfile 9 aa\n", runtime=runtime, image="/images/k3.sqsh")
    assert found["image"].state == state
    by_name = judged("", runtime=runtime)["image"]
    assert (by_name.state, by_name.seen) == ("n/a", "every step imports it")


def test_a_real_file_is_probed_and_missing_commands_are_named(tmp_path: Path) -> None:
    (tmp_path / "k3.sqsh").write_bytes(b"x" * 3_000_000)
    cluster = replace(
        plan_of(tmp_path).cluster, runtime="apptainer", numa="interleave=all", image=f"{tmp_path}/k3.sqsh",
        before=("apptainer() { :; }",),
    )  # fmt: skip
    made = make_plan(load_recipe(cluster.recipe), cluster)
    facts = look(tmp_path, made)
    assert facts.image.startswith("file 3000000 ") and facts.commands["apptainer"]
    facts.commands["numactl"] = False
    cell = next(cell for cell in judge_facts(facts, made, {facts.host: facts}) if cell.check == "commands")
    assert cell.state == "bad" and "no numactl" in cell.seen
    without = look(tmp_path, make_plan(load_recipe(cluster.recipe), replace(cluster, before=())))
    assert without.commands["apptainer"] == (shutil.which("apptainer") is not None)


@pytest.mark.parametrize(
    ("runtime", "uid", "state"),
    [("docker", 1000, "ok"), ("podman", 0, "ok"), ("podman", 1000, "bad"), ("process", 0, "bad")],
)
def test_a_container_has_its_own_limit_of_locked_memory(runtime: str, uid: int, state: str) -> None:
    found = judged(f"==limits==\nmemlock 8192\nuid {uid}\n", runtime=runtime)["memlock"]
    assert found.state == state


def test_doctor_looks_at_the_ports_of_an_override() -> None:
    """A wrong one is refused before any node is asked."""
    words = ["doctor", "--cluster", "twin-local", "--set"]
    with pytest.raises(SpecError, match="nothing reads"):
        CliRunner().invoke(root, [*words, "ports.htttp=20105"], catch_exceptions=False)
    result = CliRunner().invoke(root, [*words, "ports.http=20105", "--json"])
    assert {cell["node"] for cell in json.loads(result.stdout)["cells"]} >= {"twin-pm"}
