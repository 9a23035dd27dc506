"""Redaction at ingestion: what names a machine, a home or a key never reaches an artifact."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from store_samples import HEADER, LAW, REQUESTS

from k3repro.errors import ArtifactRefused, InputError
from k3repro.store import Redactor, Store, export_artifact, looks_secret
from k3repro.store._environment import allowed_variables

KEY = "sk-" + "a1B2" * 8


@pytest.fixture
def redactor(tmp_path: Path) -> Redactor:
    return Redactor(tmp_path / ".pseudonyms.json")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://user:pass@router-17.corp:30000/v1?key=abc#x", "http://node-1:30000/v1"),
        (
            "see https://github.com/vllm-project/vllm/pull/1?q=2 now",
            "see https://github.com/vllm-project/vllm/pull/1 now",
        ),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[fe80::1]:30000/x", "http://node-1:30000/x"),
        ("connect to 10.12.0.7 failed", "connect to node-1 failed"),
        ("connect to 10.12.0.7:30000, then 10.12.0.8", "connect to node-1:30000, then node-2"),
        ("peer fd00:dead::12 lost", "peer node-1 lost"),
        ("/home/somebody/models/k3", "~/models/k3"),
        ("File /root/x.py", "File ~/x.py"),
        ("/Users/me/x", "~/x"),
        (f"Authorization: Bearer {'x' * 30}", "Authorization: [key]"),
        (f"key {KEY} end", "key [key] end"),
        (
            "at 12:34:56 ratio 1.5 of 2::3, torch 2.13.0+cpu",
            "at 12:34:56 ratio 1.5 of 2::3, torch 2.13.0+cpu",
        ),
        ("std::vector and C0 + k*OSL", "std::vector and C0 + k*OSL"),
        ("twin:mi325x?seed=7&max_num_seqs=8", "twin:mi325x?seed=7&max_num_seqs=8"),
    ],
)
def test_text(redactor: Redactor, text: str, clean: str) -> None:
    assert redactor.text(text) == clean
    assert redactor.text(clean) == clean, "redaction is idempotent"


def test_pseudonyms_are_stable_and_found_in_free_text(redactor: Redactor, tmp_path: Path) -> None:
    assert redactor.text("http://gpu-node-a:1/ http://gpu-node-b:1/") == "http://node-1:1/ http://node-2:1/"
    later = Redactor(tmp_path / ".pseudonyms.json")
    assert later.text("gpu-node-b died before GPU-NODE-A") == "node-2 died before node-1"
    assert later.text("http://gpu-node-c/") == "http://node-3/"
    assert redactor.text("http://gpu-node-d/") == "http://node-4/", "a second process saw the map grow"


def test_registered_names(redactor: Redactor) -> None:
    redactor.register(["rack7-gpu03"])
    assert redactor.value({"log": ["rank 3 on rack7-gpu03"]}) == {"log": ["rank 3 on node-1"]}


def test_values_under_secret_names_are_dropped(redactor: Redactor) -> None:
    value = {"api_key": "hunter2", "nested": [{"Authorization": "hunter3"}], "tokens": "kept", "n": 1}
    assert redactor.value(value) == {
        "api_key": "[key]",
        "nested": [{"Authorization": "[key]"}],
        "tokens": "kept",
        "n": 1,
    }


def test_environment_variables_enter_by_allow_list() -> None:
    variables = {
        "TZ": "UTC",
        "VLLM_USE_X": "1",
        "VLLM_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
        "HOME": "/home/me",
    }
    assert allowed_variables(variables) == {"TZ": "UTC", "VLLM_USE_X": "1"}


def test_nothing_of_a_cluster_is_in_the_sealed_file(store: Store) -> None:
    header = dataclasses.replace(
        HEADER,
        subject="kimi-k3 on router-17.corp",
        parameters={"url": "http://user:pw@router-17.corp:30000/v1?api_key=abc"},
        serve={"log": "/home/somebody/run.log on router-17.corp and 10.0.0.9", "api_key": KEY},
    )
    run = store.begin(header, REQUESTS)
    run.serve["late"] = "http://decode-3.corp/metrics"
    run.commit("a", {"requests": [{"request_id": "r", "text": "Cannot connect to host decode-3.corp:30001"}]})
    folder = b"".join(path.read_bytes() for path in run.folder.iterdir())
    artifact = run.seal()
    everything = folder + artifact.path.read_bytes() + json.dumps(artifact.document).encode()
    everything += b"".join(path.read_bytes() for path in store.ledger.folder.iterdir())
    for secret in (
        b"router-17",
        b"decode-3",
        b"user:pw",
        b"api_key=",
        b"somebody",
        b"10.0.0.9",
        KEY.encode(),
    ):
        assert secret not in everything, secret
    assert artifact.subject == "kimi-k3 on node-1"
    assert store.find("osl-sweep@kimi-k3 on router-17.corp") == artifact


@pytest.mark.parametrize("kind", ["probe", "bring-up"])
def test_no_subject_is_an_address(store: Store, kind: str) -> None:
    header = dataclasses.replace(HEADER, kind=kind, subject="http://127.0.0.1:8000")
    with pytest.raises(InputError, match="a name, not an address"):
        store.begin(header, REQUESTS)


@pytest.mark.parametrize("place", ["row", "document"])
def test_export_refuses_key_like_strings(store: Store, tmp_path: Path, place: str) -> None:
    rows = [{"id": KEY if place == "row" else "a", "slope": 1.0}]
    citation = {"document": "x", "note": KEY if place == "document" else ""}
    artifact = store.transcribe("walls", "x", citation, LAW, rows)
    with pytest.raises(ArtifactRefused, match="looks like a key"):
        export_artifact(artifact, tmp_path, "csv")


def test_what_looks_secret() -> None:
    for text in (
        KEY,
        "hf_" + "a" * 20,
        "ghp_" + "a" * 30,
        "AKIA" + "A" * 16,
        "-----BEGIN RSA PRIVATE KEY-----",
    ):
        assert looks_secret(f"x {text} y"), text
    for text in ("sk-learn", "hf_hub", "task-force-of-many-words-and-more", "0" * 64, "bearer of news"):
        assert not looks_secret(text), text
