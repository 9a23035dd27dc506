"""What sites differ in: Slurm's options, runtimes, unnamed nodes; overrides that do nothing are refused."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.bringup import (
    SECTIONS,
    check_plan,
    hand_scripts,
    load_recipe,
    make_plan,
    parse_cluster,
    refuse_without_effect,
)
from k3repro.bringup._cluster import with_hosts
from k3repro.bringup._slurm import pyxis_image, slurm_options, step_options
from k3repro.cli import root
from k3repro.errors import K3Error, SpecError

FILES = Path(__file__).parents[2] / "pipelines/clusters"
SSH, SLURM = ((FILES / name).read_text() for name in ("mi325x-thor2.toml", "mi300x-cx7.toml"))
NODES = "\n".join(line for line in SLURM.splitlines() if "host =" in line and "address" in line)
COUNTED = SLURM.replace(NODES, "count = 4")
shellcheck = pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")


def slurm(text: str = SLURM, **fields: str) -> str:
    lines = "\n".join(f'{name} = "{value}"' for name, value in fields.items())
    return text.replace('partition = ""', f'partition = "gpu"\n{lines}')


def runtime(name: str, text: str = SLURM) -> str:
    return text.replace('runtime = "docker"', f'runtime = "{name}"')


def scripts(text: str) -> dict[str, str]:
    cluster = parse_cluster(text, "c.toml")
    return hand_scripts(make_plan(load_recipe(cluster.recipe), cluster))


def test_slurm_is_asked_for_whole_nodes() -> None:
    cluster = parse_cluster(slurm(account="k3", qos="long", reservation="r1", output="logs/%j.out"), "c.toml")
    options = slurm_options(cluster)
    assert {"--account=k3", "--qos=long", "--reservation=r1", "--partition=gpu", "--mem=0"} < set(options)
    assert {"--nodes=4", "--exclusive", "--gres=gpu:8", "--nodelist=pw,dw,pm,dm"} < set(options)
    batch = hand_scripts(make_plan(load_recipe(cluster.recipe), cluster))["serve.sbatch"]
    assert all(f"#SBATCH {option}\n" in batch for option in options)
    assert "#SBATCH --output=logs/%j.out\n" in batch
    without = slurm_options(parse_cluster(slurm(gres="none", memory="512G"), "c.toml"))
    assert "--mem=512G" in without and not any(option.startswith("--gres") for option in without)


@pytest.mark.parametrize(
    ("key", "value"),
    [("account", "a;b"), ("qos", "$(id)"), ("memory", "all"), ("gres", "gpu:8;x"), ("output", "a b")],
)
def test_what_slurm_cannot_be_asked_is_refused(key: str, value: str) -> None:
    with pytest.raises(SpecError):
        parse_cluster(slurm(**{key: value}), "c.toml")


def test_slurm_may_choose_the_nodes() -> None:
    cluster = parse_cluster(COUNTED, "c.toml")
    assert cluster.unnamed and not any("nodelist" in option for option in slurm_options(cluster))
    batch = hand_scripts(make_plan(load_recipe(cluster.recipe), cluster))["serve.sbatch"]
    assert "scontrol show hostnames" in batch and '"s/k3-node-0/${addresses[0]}/g"' in batch
    given = [(f"n{i}", f"10.0.0.{i}") for i in range(4)]
    named = parse_cluster(with_hosts(COUNTED, given), "c.toml")
    assert [(node.host, node.address) for node in named.nodes] == given and not named.unnamed
    with pytest.raises(SpecError, match="only Slurm"):
        parse_cluster(COUNTED.replace('scheduler = "slurm"', 'scheduler = "ssh"'), "c.toml")
    with pytest.raises(SpecError, match="3 nodes"):
        with_hosts(COUNTED, given[:3])


def test_apptainer_runs_the_engine_inside_its_image() -> None:
    script = scripts(runtime("apptainer"))["10-prefill_worker.sh"]
    assert "apptainer exec" in script and "--bind /data/models/Kimi-K3:/data/models/Kimi-K3:ro" in script
    assert "docker://k3repro/kimik3-disagg:206fffe" in script and "--env K3_WRITE_READBACK=1" in script


def test_pyxis_is_asked_by_the_step() -> None:
    text = runtime("pyxis").replace("k3repro/kimik3", "registry.example:5000/k3repro/kimik3")
    cluster = parse_cluster(text, "c.toml")
    assert pyxis_image(cluster) == "registry.example:5000#k3repro/kimik3-disagg:206fffe"
    options = step_options(cluster)
    assert any("/data/models/Kimi-K3:/data/models/Kimi-K3:ro" in option for option in options)
    assert "--container-image=" in scripts(text)["serve.sbatch"]
    assert step_options(parse_cluster(SLURM, "c.toml")) == []


def test_commands_of_the_site_come_first() -> None:
    text = SLURM.replace('runtime = "docker"', 'runtime = "docker"\nbefore = ["module load rocm/7.2"]')
    for name, script in scripts(text).items():
        if name[:2].isdigit():
            assert script.index("module load") < script.index("mkdir")
    bound = runtime("apptainer").replace(
        'runtime = "apptainer"', 'runtime = "apptainer"\nnuma = "interleave=all"'
    )
    assert "numactl --interleave=all" in scripts(bound)["10-prefill_worker.sh"].replace(" \\\n  ", " ")


@pytest.mark.parametrize("text", [SSH.replace("bnxt", "mlx5"), SLURM.replace('"mlx5"', '"bnxt"')])
def test_another_adapter_than_published_is_a_warning(text: str) -> None:
    cluster = parse_cluster(text, "c.toml")
    found = check_plan(make_plan(load_recipe(cluster.recipe), cluster))
    assert [item.outcome for item in found if item.id == "fabric-as-published"] == ["warn"]


@shellcheck
@pytest.mark.parametrize("name", ["docker", "podman", "apptainer", "pyxis", "process"])
@pytest.mark.parametrize("text", [SSH, SLURM, COUNTED], ids=["ssh", "slurm", "counted"])
def test_scripts_please_shellcheck(name: str, text: str, tmp_path: Path) -> None:
    if name == "pyxis" and text is SSH:
        return
    extra = 'before = ["module load rocm"]' if text is SLURM else ""
    files = []
    for file, script in scripts(runtime(name, text).replace("[paths]", f"{extra}\n[paths]")).items():
        if file != "Dockerfile":
            (tmp_path / file).write_text(script)
            files.append(str(tmp_path / file))
    done = subprocess.run(["shellcheck", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("layout.prefix_caching=true", "flags.all.--no-enable-prefix-caching"),
        ("layout.engine_version=0.28.0", "pins.engine_version"),
        ("layout.title=mine", "changes nothing"),
        ("layout.ep=8", "changes nothing"),
        ("ports.htttp=20006", "http"),
        ("order.alive=3", "alive_s"),
        ("container.flag=x", "flags"),
        ("pool.decode.graph=NONE", "cudagraph"),
        ("transfer.extra.post_batch=1", "post_batch_size"),
        ("memory.heap=1", "nothing reads"),
    ],
)
def test_a_setting_without_effect_is_refused(setting: str, words: str) -> None:
    result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", "mi300x-cx7", "--set", setting])
    assert isinstance(result.exception, SpecError) and words in str(result.exception)


def test_a_setting_with_effect_or_said_again_is_taken() -> None:
    for setting in (
        "layout.max_num_seqs=16",
        "layout.max_num_seqs=8",
        "env.all.MY_SWITCH=1",
        "order.poll_s=5",
    ):
        result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", "mi300x-cx7", "--set", setting])
        assert result.exit_code == 0, result.output


KEYS = [*SECTIONS, "layout", "nowhere", ""]
NAMES = [
    "http",
    "max_num_seqs",
    "prefix_caching",
    "--block-size",
    "K3_WRITE_READBACK",
    "vllm",
    "kv_role",
    "x",
    "",
    "a b",
]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.floats(), st.text(max_size=20),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@given(st.sampled_from(KEYS), st.one_of(st.sampled_from(NAMES), st.text(max_size=12)), VALUES)
@settings(max_examples=1000, deadline=None)
def test_any_override_is_a_plan_or_one_line(section: str, name: str, value: object) -> None:
    recipe, cluster = load_recipe("kimi-k3-mi300x"), parse_cluster(SLURM, "c.toml")
    overrides = {f"{section}.{name}": value}
    try:
        refuse_without_effect(recipe, overrides, cluster)
        plan = make_plan(recipe.with_overrides(overrides), cluster)
        check_plan(plan)
    except K3Error as error:
        assert str(error).strip() and "\n" not in str(error)
        return
    assert plan.launches


def test_a_thousand_random_cluster_files_are_plans_or_one_line() -> None:
    chance, lines = random.Random(22), SLURM.splitlines()
    values = [
        '"a b"',
        '""',
        "-1",
        "true",
        "[]",
        "{}",
        '"x"',
        "1e9",
        '"$(id)"',
        '"apptainer"',
        '"10.0.0.300"',
        "3",
    ]
    made = 0
    for _ in range(1000):
        text = list(lines)
        for _ in range(chance.randint(1, 4)):
            spot = chance.randrange(len(text))
            change = chance.choice(("drop", "value", "twice", "key", "noise"))
            if change == "drop":
                text[spot] = ""
            elif change == "value" and "=" in text[spot]:
                text[spot] = f"{text[spot].partition('=')[0]}= {chance.choice(values)}"
            elif change == "key" and "=" in text[spot]:
                text[spot] = f"un{text[spot]}"
            else:
                text.insert(
                    spot, text[spot] if change == "twice" else chance.choice(("]", "[slurm]", "é", "x = 1"))
                )
        try:
            cluster = parse_cluster("\n".join(text), "c.toml")
            plan = make_plan(load_recipe(cluster.recipe), cluster)
            made += bool(check_plan(plan) is not None and hand_scripts(plan))
        except K3Error as error:
            assert str(error).strip() and "\n" not in str(error)
    assert 10 < made < 990


def test_every_runtime_and_scheduler_gives_a_plan() -> None:
    for name, text in itertools.product(("docker", "podman", "apptainer", "process"), (SSH, SLURM)):
        assert scripts(runtime(name, text))["50-router.sh"]


def plan(*arguments: str) -> str:
    result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", "mi300x-cx7", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_plan_begins_with_its_summary() -> None:
    said = plan()
    head = said[: said.index("\n# 1. ")]
    words = ["lanes 4 to 7 on pw", "TP2 x DP8, EP16", "GiB per GPU: experts 89.1", "KV pool 12.1"]
    words += ["rules now", "time:"]
    assert all(word in head for word in words) and "warn: [image-by-digest]" in head
    assert " \\\n  --kv-cache-dtype fp8 \\\n" in said and max(map(len, said.splitlines())) < 700


def test_a_plan_is_compared_with_another(tmp_path: Path) -> None:
    changed = plan("--set", "layout.max_num_seqs=16", "--diff", "recipe")
    assert {line for line in changed.splitlines() if line.startswith(("+", "-"))} >= {
        "-  --max-num-seqs 8 \\", "+  --max-num-seqs 16 \\",
    }  # fmt: skip
    assert "no difference" in plan("--diff", "recipe")
    saved = tmp_path / "plan.json"
    saved.write_text(plan("--json"))
    assert "no difference" in plan("--diff", str(saved))
    assert "+  --kv-cache-memory-bytes 13000000000" in plan("--diff", "mi325x-thor2")


def test_every_variable_says_why_and_who_says_so() -> None:
    said = plan("--explain")
    for launch in make_plan(load_recipe("kimi-k3-mi300x"), parse_cluster(SLURM, "c.toml")).launches:
        assert all(f".{name} = " in said for name in launch.variables)
    assert "Gate again when it is turned off" in said
