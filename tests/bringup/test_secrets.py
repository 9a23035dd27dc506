"""Keys in the environment, in URLs and in what engines print: none reaches a plan, state or artifact."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.bringup import Local, State, StateFile, load_cluster, load_recipe, parse_cluster, seal_bring_up
from k3repro.bringup._http import _wrong
from k3repro.bringup._node_status import read_status
from k3repro.bringup._sanitise import clean_environment, hide
from k3repro.cli import root
from k3repro.client import Outcome, RequestRecord
from k3repro.errors import SpecError
from k3repro.store import Store

TEXT = (Path(__file__).parents[2] / "pipelines/clusters/mi325x-thor2.toml").read_text()
HF = "hf_" + "Qw3rTy" * 5
PASSWORD = "hunter2horse"
SECRETS = {
    "HF_TOKEN": HF,
    "OPENAI_API_KEY": "sk-" + "a1B2" * 8,
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIexample",
    "MY_PASSWORD": PASSWORD,
    "HTTPS_PROXY": f"http://someone:{PASSWORD}@proxy.example:3128",
    "K3REPRO_API_KEY": "plainword17",
    "INNOCENT": "ghp_" + "Z9y8" * 9,
}


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("K3REPRO_STATE", str(tmp_path / "state"))
    return [*SECRETS.values(), PASSWORD]


def clean(text: str, secrets: list[str]) -> None:
    assert not [secret for secret in secrets if secret in text]


def test_a_launch_inherits_no_secret(hostile: list[str]) -> None:
    node = load_cluster("mi325x-thor2").nodes[0]
    for mark in ("", "up-1:router"):
        run = Local().launch(node, "env", mark=mark) if mark else Local().run(node, "env")
        out = asyncio.run(run).out
        clean(out, hostile)
        assert "PATH=" in out and (not mark or "K3REPRO_LAUNCH=up-1:router" in out)


def test_slurm_keeps_what_its_commands_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", "eyJhbGciOi.eyJzdWIiOiJ4.abcdefghij")
    assert "SLURM_JWT" in clean_environment()


def test_plan_scripts_and_json_hold_none(hostile: list[str], tmp_path: Path) -> None:
    for extra in (["--write", str(tmp_path / "plan")], ["--json"]):
        result = CliRunner().invoke(root, ["bringup", "plan", "--cluster", "mi325x-thor2", *extra])
        assert result.exit_code == 0
        clean(result.output, hostile)
    clean("".join(path.read_text() for path in (tmp_path / "plan").iterdir()), hostile)


@pytest.mark.parametrize(
    "said",
    [
        f"ERROR cannot reach http://someone:{PASSWORD}@proxy.example:3128/v1",
        f"ERROR download failed, token={HF}",
        f"INFO non-default args: {{'api_key': ['{PASSWORD}'], 'port': 20005}}",
        f"ERROR 401 for Authorization: Bearer {PASSWORD}",
        f"CRITICAL AWS_SECRET_ACCESS_KEY={PASSWORD} is not valid",
        f"ERROR password: {PASSWORD}",
        f'ERROR {{"apiKey": "{PASSWORD}"}}',
    ],
)
def test_what_an_engine_prints_is_hidden(said: str) -> None:
    clean(hide(said), [HF, PASSWORD])
    node = load_cluster("mi325x-thor2").nodes[0]
    status = read_status(node, f"fatal decode_master 7:{said}\nerror decode_master 3:{said}\n")[
        "decode_master"
    ]
    assert status.fatal is not None and status.first_error is not None
    clean(status.fatal[1] + status.first_error[1], [HF, PASSWORD])
    failed = RequestRecord(
        "r", "", Outcome.FAILED_HTTP, 500, None, f"HTTP 500: {said}", 0, 0, None, None, 1, None, None, None,
        None, 0, "", None,
    )  # fmt: skip
    clean(_wrong(failed), [HF, PASSWORD])


@pytest.mark.parametrize(
    "said",
    [
        "GPU KV cache size: 916,875 tokens",
        "the secret token for K-1 is HELIOTROPE-7492.",
        "tensor_parallel_size=2, kv_token_bytes: 14104",
        "http://192.0.2.11:20005/v1/models",
        "RuntimeError: NCCL error in: x.cpp:12, unhandled system error",
    ],
)
def test_what_is_no_secret_stays(said: str) -> None:
    assert hide(said) == said


@pytest.mark.parametrize(
    "line",
    [
        f'engine = ["env", "HF_TOKEN={HF}", "vllm", "serve"]',
        f'engine = ["env", "MY_PASSWORD={PASSWORD}", "vllm", "serve"]',
        f'router = ["vllm-router", "--api-key={PASSWORD}"]',
        f'router = ["vllm-router", "--otlp", "http://someone:{PASSWORD}@collector.example"]',
    ],
)
def test_command_words_of_a_cluster_file_hold_none(line: str) -> None:
    with pytest.raises(SpecError, match="secret"):
        parse_cluster(TEXT.replace("[container]", f"[container]\n{line}"), "c.toml")


@pytest.mark.parametrize(
    ("key", "value"),
    [("env.all.HTTP_PROXY", f"http://someone:{PASSWORD}@proxy.example:3128"),
     ("router.flags.--otlp-traces-endpoint", f"https://{HF}@collector.example")],
)  # fmt: skip
def test_userinfo_of_a_url_never_enters_a_plan(key: str, value: str) -> None:
    with pytest.raises(SpecError, match="secret"):
        load_recipe("kimi-k3-mi325x").with_overrides({key: value})


def test_state_and_artifact_of_a_failed_bring_up_hold_none(hostile: list[str], tmp_path: Path) -> None:
    node = load_cluster("mi325x-thor2").nodes[0]
    said = f"ERROR cannot reach http://someone:{PASSWORD}@proxy.example:3128, token={HF}"
    status = read_status(node, f"fatal decode_master 7:{said}\n")["decode_master"]
    state = State("up-1", "mi325x-thor2", TEXT, "d", "new", "http://x", [1], 1.0, 1.0)
    state.event("failed", f"decode_master failed: {status.fatal}", causes=[status.fatal])
    file = StateFile("mi325x-thor2")
    file.save(state)
    done = file.finish(state, {})
    clean(done.read_text(), hostile)
    artifact = seal_bring_up(Store(tmp_path / "artifacts"), state, {"id": "s-1"}, "kimi-k3-mi325x")
    clean(json.dumps([artifact.rows("timeline"), artifact.serve, artifact.environment], default=str), hostile)
    assert "[key]" in artifact.rows("timeline")[0]["what"]
