"""What sites differ in: Slurm's options, runtimes, unnamed nodes; overrides that do nothing are refused."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.bringup import (
    check_plan,
    hand_scripts,
    load_recipe,
    make_plan,
    parse_cluster,
)
from k3repro.bringup._cluster import with_hosts
from k3repro.bringup._slurm import pyxis_image, slurm_options, step_options
from k3repro.cli import root
from k3repro.cli.bringup import read_plan
from k3repro.errors import SpecError
from k3repro.store import Store
from k3repro.units import format_decimal

FILES = Path(__file__).parents[2] / "pipelines/clusters"
SSH, SLURM = ((FILES / name).read_text() for name in ("mi325x-thor2.toml", "mi300x-cx7.toml"))
NODES = "\n".join(line for line in SLURM.splitlines() if "host =" in line and "address" in line)
COUNTED = SLURM.replace(NODES, "count = 4")
shellcheck = pytest.mark.skipif(
    shutil.which("shellcheck") is None, reason="NOT RUN shellcheck: apt-get install shellcheck"
)


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


@pytest.mark.parametrize("line", ["[slurm]\nqos = []", "[slurm]\naccount = {}", "[ssh]\nidentity = false"])
def test_an_empty_value_of_another_kind_is_refused(line: str) -> None:
    with pytest.raises(SpecError):
        parse_cluster(
            SSH.replace("[ssh]\nuser", f"{line}\n[twin]\n#" if "ssh" not in line else f"{line}\nuser"),
            "c.toml",
        )


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
    assert step_options(parse_cluster(SLURM, "c.toml")) == ["--mpi=none", "--cpu-bind=none"]


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


RECIPES = ("kimi-k3-mi300x", "kimi-k3-mi325x") if os.environ.get("K3_NIGHTLY") else ("kimi-k3-mi300x",)
RUNTIMES = ("docker", "podman", "apptainer", "pyxis", "process")


def site(recipe: str, scheduler: str, name: str) -> str:
    """A cluster file of this platform, scheduler and runtime, with every option that scripts carry."""
    text = runtime(name, COUNTED if scheduler == "counted" else SLURM)
    text = text.replace("kimi-k3-mi300x", recipe)
    if scheduler in ("ssh", "local"):
        keys = '[ssh]\nuser = "a"\nport = 2222\nidentity = "/k/an id"\nknown_hosts = "/k/hosts"\n'
        text = text.replace('scheduler = "slurm"', f'scheduler = "{scheduler}"').replace(
            "[fabric]", f"{keys}[fabric]"
        )
    more = 'before = ["module load rocm"]\nnuma = "interleave=all"'
    return slurm(text.replace("[paths]", f"{more}\n[paths]"), account="lab", output="logs/%j.out")


@shellcheck
@pytest.mark.nightly
@pytest.mark.parametrize("recipe", RECIPES)
def test_scripts_please_shellcheck(recipe: str, tmp_path: Path) -> None:
    """Every scheduler with every runtime; a script that several of them share is read once."""
    files: dict[str, Path] = {}
    for scheduler, name in itertools.product(("local", "ssh", "slurm", "counted"), RUNTIMES):
        if name == "pyxis" and scheduler in ("local", "ssh"):
            continue
        for file, script in scripts(site(recipe, scheduler, name)).items():
            if file != "Dockerfile":
                files.setdefault(script, tmp_path / f"{scheduler}-{name}-{file}").write_text(script)
    done = subprocess.run(["shellcheck", *files.values()], capture_output=True, text=True)
    assert len(files) > 40 and done.returncode == 0, done.stdout


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
        assert read_plan("mi300x-cx7", None, (setting,)).launches


def test_every_runtime_and_scheduler_gives_a_plan() -> None:
    for name, text in itertools.product(("docker", "podman", "apptainer", "process"), (SSH, SLURM)):
        assert scripts(runtime(name, text))["50-router.sh"]


def plan(*arguments: str) -> str:
    result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", "mi300x-cx7", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def explained() -> str:
    return plan("--explain")


def test_a_plan_begins_with_its_summary() -> None:
    said = plan()
    head = said[: said.index("\n# 1. ")]
    words = ["DP ranks 4 to 7 on pw", "TP2 x DP8, EP16", "GiB per GPU: experts 89.1", "KV pool 12.1"]
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


def test_every_variable_says_why_and_who_says_so(explained: str) -> None:
    for launch in make_plan(load_recipe("kimi-k3-mi300x"), parse_cluster(SLURM, "c.toml")).launches:
        assert all(f".{name} = " in explained for name in launch.variables)
    assert "Gate again when it is turned off" in explained


def test_a_knob_says_what_the_sealed_law_has(explained: str) -> None:
    (law,) = Store(FILES.parents[1] / "artifacts").artifacts("decode-law")
    (one,) = [row for row in law.rows("law") if row["configuration"].endswith("launch=decode-one")]
    slope = format_decimal(1e6 * one["slope_s_per_token"], 4)
    words = f"1 KV split on h200: {slope} us for each token of the longest"
    assert explained.count(words) == 2 and law.seal[:12] in explained


def test_a_batch_job_ends_with_its_roles_and_takes_containers_along() -> None:
    """A job that is ending takes no new step: the step that started a container removes it."""
    text = scripts(slurm(options="x").replace('"x"', '["--constraint=ib"]'))["serve.sbatch"]
    for option in ("--no-requeue", "--propagate=NONE", "--signal=B:TERM@120", "--constraint=ib"):
        assert f"#SBATCH {option}\n" in text
    for role in ("prefill_worker", "decode_worker", "prefill_master", "decode_master"):
        step = text[text.index(f"<<'END_{role.upper()}'") : text.index(f"\nEND_{role.upper()}\n")]
        assert f"trap 'docker rm -f k3disagg_{role}" in step and f"docker wait k3disagg_{role}" in step
    assert text.count("roles+=(") == 5 and text.endswith("while look; do sleep 5; done\n")
    with pytest.raises(SpecError, match="one option of sbatch"):
        parse_cluster(slurm(options="x").replace('"x"', '["--wrap=a b"]'), "c.toml")


def test_numa_options_reach_an_engine_in_a_container() -> None:
    text = SLURM.replace('runtime = "docker"', 'runtime = "docker"\nnuma = "interleave=all"')
    assert "exec numactl \\\n  --interleave=all vllm serve" in scripts(text)["10-prefill_worker.sh"]


def test_ssh_by_hand_uses_the_keys_of_the_file() -> None:
    keys = '[ssh]\nidentity = "/k/id"\nknown_hosts = "/k/hosts"\n'
    said = scripts(SSH.replace("[ssh]\n", keys))["run-over-ssh.sh"]
    assert "ssh -i /k/id -o UserKnownHostsFile=/k/hosts " in said


def test_podman_gets_no_shared_memory_beside_the_hosts_and_no_groups_it_cannot_name() -> None:
    """Podman refuses the first, and rootless the second; docker takes both (recipe)."""
    script, docker = (scripts(runtime(name))["10-prefill_worker.sh"] for name in ("podman", "docker"))
    assert "--shm-size" not in script and "--ipc host" in script and "--shm-size 128g" in docker
    kept = "else set -- --group-add keep-groups --ulimit host; fi"
    assert kept in script and "keep-groups" not in docker
    start = script[script.index("id=$(") :]
    assert "--group-add" not in start and "--ulimit" not in start and '"$@"' in start


def test_an_image_keeps_its_own_libraries_and_has_a_home() -> None:
    script = scripts(runtime("apptainer"))["10-prefill_worker.sh"]
    assert "--rocm" not in script and "--home /var/tmp/k3disagg/jit/prefill" in script
    assert "HOME=/var/tmp/k3disagg/jit/prefill" in scripts(runtime("pyxis"))["10-prefill_worker.sh"]


@pytest.mark.parametrize(
    ("line", "ok"),
    [
        ("cpunodebind=0;membind=0,1", True),
        ("interleave=all", True),
        ("--interleave=all", False),
        ("a;", False),
    ],
)
def test_several_options_of_numactl(line: str, ok: bool) -> None:
    text = SLURM.replace('runtime = "docker"', f'runtime = "docker"\nnuma = "{line}"')
    if ok:
        words = scripts(text)["10-prefill_worker.sh"].replace(" \\\n ", "")
        assert f"numactl {' '.join('--' + part for part in line.split(';'))} vllm serve" in words
        return
    with pytest.raises(SpecError, match="without their dashes"):
        parse_cluster(text, "c.toml")


@pytest.mark.parametrize("option", ["--nodes=2", "--mem=64G", "--nod=2", "--exclusive", "--signal=B:INT@9"])
def test_an_option_that_would_undo_the_job_is_refused(option: str) -> None:
    with pytest.raises(SpecError, match="would undo"):
        parse_cluster(slurm(options="x").replace('"x"', f'["{option}"]'), "c.toml")


def test_commands_of_the_site_may_read_what_is_not_set() -> None:
    line = ". /etc/profile.d/modules.sh"
    text = SLURM.replace('runtime = "docker"', f'runtime = "docker"\nbefore = ["{line}"]')
    for name, script in scripts(text).items():
        if name[:2].isdigit():
            assert f"set +u\n# shellcheck source=/dev/null\n{line}\nset -u\n" in script


def test_a_job_serves_when_a_token_came_and_has_its_own_logs() -> None:
    batch = scripts(COUNTED)["serve.sbatch"]
    assert batch.index("/v1/completions") < batch.index("serving at")
    assert '"s/k3-job-id/$SLURM_JOB_ID/g"' in batch and "launch=job-k3-job-id:decode_worker" in batch
    assert "has no IPv4 address on eth0" in batch
    assert all("-m " in line for line in batch.splitlines() if "curl " in line)


def test_nodes_that_slurm_chooses_have_no_scripts_of_their_own() -> None:
    assert set(scripts(COUNTED)) == {"serve.sbatch", "Dockerfile"}


def test_a_denied_plan_is_written_only_when_asked(tmp_path: Path) -> None:
    words = ["bringup", "plan", "--cluster", "mi300x-cx7", "--set", "layout.max_num_batched_tokens=8192"]
    for more in (["--write", str(tmp_path / "no")], ["--diff", "recipe"], ["--json"]):
        result = CliRunner().invoke(root, [*words, *more])
        assert result.exit_code == 1 and "batched-tokens" in result.output, more
    assert not (tmp_path / "no").exists()
    result = CliRunner().invoke(root, [*words, "--write", str(tmp_path / "yes"), "--unsafe"])
    assert result.exit_code == 0
    assert "\n# DENIED: [batched-tokens] " in (tmp_path / "yes" / "serve.sbatch").read_text()


@pytest.mark.parametrize(
    ("setting", "owner"),
    [
        ("flags.all.--max-model-len=4000000", "layout.max_model_len"),
        ("flags.decode.--max-num-seqs=64", "layout.max_num_seqs"),
        ("flags.all.--kv-cache-memory-bytes=90000000000", "layout.kv_pool_bytes"),
        ("flags.master.--port=20006", "ports.http"),
        ("flags.all.--port=3", "ports.http"),
        ("flags.all.--max-num-seqs=null", "layout.max_num_seqs"),
        ("env.all.MORI_SHMEM_HEAP_SIZE=1", "layout.heap_bytes"),
        ("transfer.extra.http_port=1", "ports.http"),
    ],
)
def test_what_a_layout_or_port_fills_in_is_set_there(setting: str, owner: str) -> None:
    result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", "mi300x-cx7", "--set", setting])
    assert isinstance(result.exception, SpecError) and f"Set {owner}" in str(result.exception)


def test_sizes_are_taken_as_engines_print_them() -> None:
    layout = read_plan(
        "mi300x-cx7", None, ("layout.kv_pool_bytes=0.5GiB", "layout.max_model_len=9K")
    ).recipe.layout
    assert (layout.kv_pool_bytes, layout.max_model_len) == (2**29, 9000)


def shown(text: str, tmp_path: Path) -> str:
    file = tmp_path / "c.toml"
    file.write_text(text)
    result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", str(file)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_plan_shows_the_step_of_slurm_with_the_image_of_pyxis(tmp_path: Path) -> None:
    said = shown(runtime("pyxis"), tmp_path)
    assert said.count("--container-image=k3repro/kimik3-disagg:206fffe") == 5 == said.count("srun ")
    assert "srun" not in shown(SSH, tmp_path) and "they outlive an allocation" in shown(SLURM, tmp_path)


def test_a_plan_invents_no_node_and_names_the_fabric_of_the_cluster(tmp_path: Path) -> None:
    said = shown(COUNTED.replace('"mlx5"', '"bnxt"'), tmp_path)
    assert said.startswith("Kimi-K3 on MI300X, Thor2 rails: cluster mi300x-cx7")
    assert "for clients its port 30000" in said
    assert "prefill_master  DP ranks 0 to 3 on the third node that Slurm gives" in said
