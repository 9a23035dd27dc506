"""The command line of `vllm serve`: the recipe's four roles are taken, what vLLM refuses is refused."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files

import pytest
from click.testing import CliRunner
from engine_roles import role_arguments, transfer_config
from hypothesis import given
from hypothesis import strategies as st

from k3repro.cli.twin import twin
from k3repro.errors import UsageError
from k3repro.twin.engine import RoleLaunch, read_flags, read_launch

TABLE = tomllib.loads(files("k3repro.twin.engine").joinpath("flags.toml").read_text())


def launch(pool: str, kind: str, **extra: str) -> RoleLaunch:
    config = transfer_config(pool, ["10.0.0.3", "10.0.0.4"], 36367, **extra)
    return read_launch(role_arguments(pool, kind, "10.0.0.1", config), {"VLLM_HOST_IP": "10.0.0.2"})


@pytest.mark.parametrize("pool", ["prefill", "decode"])
@pytest.mark.parametrize("kind", ["master", "worker"])
def test_the_four_roles_of_the_recipe(pool: str, kind: str) -> None:
    role = launch(pool, kind)
    assert role.role == f"{pool}_{kind}"
    assert list(role.lanes) == ([0, 1, 2, 3] if kind == "master" else [4, 5, 6, 7])
    assert (role.tp, role.dp, role.max_num_seqs, role.batched_tokens) == (2, 8, 8, 2048)
    assert role.headless is (kind == "worker") and role.remote_lanes == (0 if kind == "worker" else 4)
    transfer = role.transfer
    assert transfer is not None and transfer.kind == ("P" if pool == "prefill" else "D")
    assert transfer.pod_hosts == ("10.0.0.3", "10.0.0.4") and transfer.host == "10.0.0.2"
    assert (transfer.handshake_port, transfer.notify_port, transfer.ping_port) == (8405, 61005, 36367)
    assert not transfer.read and transfer.defer_timeout_s == 60


@given(st.sampled_from([name for kind in ("value", "many") for name in TABLE[kind]]), st.booleans())
def test_every_option_of_the_engine_is_taken_in_every_spelling(name: str, underscores: bool) -> None:
    value = TABLE["choices"].get(name, ["7"])[0]
    spelled = "--" + (name.replace("-", "_") if underscores else name)
    assert read_flags(["serve", "m", spelled, value]).text(name) == value
    assert read_flags(["serve", "m", f"{spelled}={value}"]).text(name) == value


@pytest.mark.parametrize("name", TABLE["pair"])
def test_switches_can_be_said_and_unsaid(name: str) -> None:
    assert read_flags(["m", f"--{name}"]).switch(name)
    assert not read_flags(["m", f"--{name}", f"--no-{name}"]).switch(name, True)


def test_short_names_lists_dotted_options_and_scaled_numbers() -> None:
    words = (
        "serve m -tp 2 -dp=8 --served-model-name a b --cudagraph-capture-sizes 1 2 4 --max-model-len 1k "
        "--compilation-config.cudagraph_mode NONE --port -1"
    )
    flags = read_flags(words.split())
    assert (flags.number("tensor-parallel-size", 1), flags.number("data-parallel-size", 1)) == (2, 8)
    assert flags.text("served-model-name") == "a" and flags.values["cudagraph-capture-sizes"] == [
        "1",
        "2",
        "4",
    ]
    assert (
        flags.number("max-model-len", 0) == 1000
        and read_flags(["m", "--max-model-len", "1K"]).number("max-model-len", 0) == 1024
    )
    assert flags.text("compilation-config.cudagraph-mode") == "NONE" and flags.text("port") == "-1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("serve m --tensor-paralel-size 2", "Did you mean --tensor-parallel-size"),
        ("serve m --no-trust-remote-cod", "unrecognized arguments"),
        ("serve m --no-headless", "unrecognized arguments"),
        ("serve m --all2all-backend mori", "mori_low_latency"),
        ("serve m --max-model-len", "expected one argument"),
        ("serve m --max-model-len --port 1", "expected one argument"),
        ("serve m --headless=yes", "takes no value"),
        ("serve m n", "unrecognized arguments: n"),
        ("serve", "no model"),
        ("serve m --port x", "invalid int value"),
        ("serve m -dp 0", "at least 1"),
        ("serve m -dp 8 -dpl 4 -dpr 5", "do not fit"),
        ("serve m -dp 8 -dpl 4 -dpr 4 --headless --api-server-count 2", "cannot be used with --headless"),
        ("serve m --headless", "data-parallel-start-rank"),
        ("serve m --kv-transfer-config {", "not JSON"),
        ("serve m --kv-transfer-config []", "not a JSON object"),
        ('serve m --kv-transfer-config {"kv_connector":"NixlConnector"}', "Unsupported connector type"),
    ],
)
def test_what_the_engine_refuses(arguments: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_launch(arguments.split(), {})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"handshake_port": "eighty"}, "not a port"),
        ({"notify_port": "70000"}, "not a port"),
        ({"defer_timeout": "soon"}, "not seconds"),
        ({"transfer_timeout": "-1"}, "not seconds"),
    ],
)
def test_a_transfer_config_with_nonsense_is_refused(extra: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        launch("prefill", "master", **extra)


def test_the_command_resolves_a_role_and_reads_its_variables() -> None:
    arguments = role_arguments("decode", "worker", "10.0.0.1", None)
    result = CliRunner().invoke(twin, ["engine", "--json", *arguments], env={"VLLM_HOST_IP": "10.0.0.2"})
    facts = json.loads(result.output)
    assert facts["role"] == "worker" and facts["lanes"] == [4, 5, 6, 7] and facts["tier"] == "simulated"
    refused = CliRunner().invoke(twin, ["engine", *arguments], env={"K3REPRO_TWIN_TIME_SCALE": "0"})
    assert "--time-scale is 0.0" in str(refused.exception)
