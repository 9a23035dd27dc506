"""The same seed gives the same rows in another process, with other hashes and without vector instructions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core import _multiarray_umath as numpy_build

PROGRAM = """
import sys
from pathlib import Path
from k3repro.probes import run_probe
from k3repro.publications import read_publication, transcribe
from k3repro.store import Store
from k3repro.studies.kimi_k3.calibration import calibrate

store = Store(Path(sys.argv[1]))
gate = run_probe("needle-gate", target="twin:mi300x", store=store, seed=11, context=600, concurrency=(1, 8))
rungs = run_probe(
    "envelope", target="twin:mi300x", store=store, seed=11, isl=1024, osl=24, concurrency=(1, 96)
)
sick = run_probe(
    "needle-gate", target="twin:mi325x?defect=kv-write-race,state-recycle,clock-skew", store=store, seed=11,
    context=600, concurrency=(1, 8, 16),
)
sealed = [gate, rungs, sick]
if files := [Path(name) for name in sys.argv[2:]]:
    printed = {a.name: a for file in files for a in transcribe(read_publication(file), store)}
    names = ("published-decode", "published-agentic", "published-memory")
    sealed.append(store.derive(calibrate, [printed[name] for name in names], subject="twin"))
for artifact in sealed:
    print(artifact.name, artifact.data)
"""
FOLDER = Path(__file__).parents[2] / "artifacts" / "publications" / "kimi_k3"
PRINTED = [str(FOLDER / f"amd-di-kimi-k3{part}.toml") for part in ("", "-memory")]


def _digests(folder: Path, printed: list[str], **environment: str) -> str:
    env = {**os.environ, **environment}
    command = [sys.executable, "-c", PROGRAM, str(folder), *printed]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


# The calibration takes longest; what is sealed of it CI recomputes, on whatever processor it has.
@pytest.mark.parametrize(
    "printed", [[], pytest.param(PRINTED, marks=pytest.mark.nightly)], ids=["runs", "all"]
)
def test_digests_do_not_depend_on_process_hashes_or_cpu(tmp_path: Path, printed: list[str]) -> None:
    features = [name for name in numpy_build.__cpu_dispatch__ if numpy_build.__cpu_features__.get(name)]
    plain = _digests(tmp_path / "a", printed, PYTHONHASHSEED="0")
    other = _digests(
        tmp_path / "b", printed, PYTHONHASHSEED="4242", NPY_DISABLE_CPU_FEATURES=",".join(features)
    )
    assert plain == other
    assert len(plain.splitlines()) == 3 + bool(printed)
