"""The error study as derivations: what each rule costs on each source of weights, recomputable by anyone.

Inputs are two artifacts of tier `config`: the settings of the study (sources, seeds, sizes), and the digest
of the real weights, which are fetched when needed and never stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from k3repro.errors import InputError
from k3repro.mxfp4 import (
    BLOCK,
    E2M1_VALUES,
    RULES,
    Arithmetic,
    Bytes,
    decode,
    encode,
    pack_nibbles,
    requantise_reference,
)
from k3repro.store import Artifact, Column, Schema, Store, Table, derivation
from k3repro.studies.int4._errors import block_errors, merge_rows, merges
from k3repro.studies.int4._expert import STAGES, expert_errors
from k3repro.studies.int4._weights import (
    REAL,
    SYNTHETIC,
    WHEEL,
    WHEEL_VERSION,
    real_matrices,
    synthetic_blocks,
)

Rows = Mapping[str, Sequence[Mapping[str, Any]]]

SUBJECT = "mxfp4"
BLOCKS, SEED = 100_000, 0
REAL_LAYERS = (0, 15, 29)
_ARITHMETICS: tuple[Arithmetic, ...] = ("real", "bf16")
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
OCP = "OCP Microscaling Formats (MX) Specification v1.0"

SETTINGS_SCHEMA = Schema(
    [
        Table(
            "sources",
            [
                Column("source", "VARCHAR"),
                Column("blocks", "INT64", "blocks of 32"),
                Column("seed", "INT64"),
                Column(
                    "scale_rule", "VARCHAR", doc="how values became MXFP4: floor is the specification's rule"
                ),
            ],
            key=("source",),
        )
    ]
)
WEIGHTS_SCHEMA = Schema(
    [
        Table(
            "weights",
            [
                Column("package", "VARCHAR"),
                Column("version", "VARCHAR"),
                Column("sha256", "VARCHAR"),
                Column("layers", "INT64[]", doc="layers whose feed-forward matrices are used"),
            ],
            key=("package",),
        )
    ]
)
ERROR_COLUMNS = [
    Column("source", "VARCHAR"),
    Column("rule", "VARCHAR"),
    Column(
        "arithmetic", "VARCHAR", doc="real: float64; bf16: stored scales; bf16-truncated: kernel's narrowing"
    ),
    Column("blocks", "INT64"),
    Column("relative_rms", "DOUBLE", doc="norm of the difference over the norm of the MXFP4 weights"),
    Column("sqnr_db", "DOUBLE", "dB"),
    Column("bias", "DOUBLE", doc="mean magnitude after over before, less one"),
    Column("merged", "DOUBLE", doc="share of elements merged with another magnitude of their block"),
    Column("exact_blocks", "DOUBLE", doc="share of blocks without any error"),
]
MERGE_TABLE = Table(
    "merges",
    [
        Column("source", "VARCHAR"),
        Column("rule", "VARCHAR"),
        Column("low", "DOUBLE"),
        Column("high", "DOUBLE"),
        Column("share", "DOUBLE", doc="share of blocks in which both magnitudes occur and became one code"),
    ],
    key=("source", "rule", "low"),
)
ERROR_SCHEMA = Schema([Table("errors", ERROR_COLUMNS, key=("source", "rule", "arithmetic")), MERGE_TABLE])
MAP_SCHEMA = Schema(
    [
        Table(
            "codes",
            [
                Column("rule", "VARCHAR"),
                Column("peak", "DOUBLE", doc="largest magnitude of the block"),
                Column("magnitude", "DOUBLE"),
                Column("code", "INT64"),
                Column("value", "DOUBLE", doc="what the code stands for, in E2M1 units"),
            ],
            key=("rule", "peak", "magnitude"),
        )
    ]
)
EXPERT_SCHEMA = Schema(
    [
        Table(
            "outputs",
            [
                Column("source", "VARCHAR"),
                Column("rule", "VARCHAR"),
                Column("stage", "VARCHAR", doc="gate, up, activation, expert, mix"),
                Column("position", "INT64", doc="order of the stages"),
                Column("relative_rms", "DOUBLE"),
                Column("experts", "INT64"),
                Column("tokens", "INT64"),
            ],
            key=("source", "rule", "stage"),
        )
    ]
)


def seal_settings(store: Store, blocks: int = BLOCKS, seed: int = SEED) -> Artifact:
    """The settings of the study as an artifact of tier `config`."""
    rows = [{"source": s, "blocks": blocks, "seed": seed, "scale_rule": "floor"} for s in SYNTHETIC]
    return store.transcribe("int4-study-settings", SUBJECT, {"spec": OCP}, SETTINGS_SCHEMA, {"sources": rows})


def seal_weights_digest(store: Store) -> Artifact:
    """Which real weights the study uses: package, version and digest, tier `config`."""
    row = {"package": WHEEL, "version": WHEEL_VERSION, "sha256": WHEEL_SHA256, "layers": list(REAL_LAYERS)}
    citation = {
        "spec": f"PyPI {WHEEL} {WHEEL_VERSION} (SmolLM2-135M-Instruct, Apache-2.0)",
        "sha256": WHEEL_SHA256,
    }
    return store.transcribe("int4-study-weights", REAL, citation, WEIGHTS_SCHEMA, {"weights": [row]})


def _study(source: str, packed: Bytes, scales: Bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Errors and merges of all rules on blocks [n, 16] and scales [n, 1]; each conversion is made once."""
    errors, merged = list[dict[str, Any]](), list[dict[str, Any]]()
    weights = decode(packed, scales).astype(np.float64)
    for rule, arithmetic in product(RULES, _ARITHMETICS):
        result = requantise_reference(packed, scales, rule, arithmetic=arithmetic)
        pairs = merges(packed, result)
        named = {"source": source, "rule": rule, "arithmetic": arithmetic, "blocks": scales.size}
        errors.append({**named, **block_errors(weights, packed, result, pairs)})
        if (rule, arithmetic) == ("amax7", "bf16"):
            cut = block_errors(weights, packed, result, pairs, truncate=True)
            errors.append({**named, "arithmetic": "bf16-truncated", **cut})
        if arithmetic == "bf16":
            merged += [{"source": source, "rule": rule, **row} for row in merge_rows(pairs)]
    return errors, merged


def _one(inputs: Sequence[Artifact], name: str) -> Artifact:
    if [artifact.name for artifact in inputs] != [name]:
        raise InputError(f"this study takes one input, {name}")
    return inputs[0]


@derivation(name="int4-error", schema=ERROR_SCHEMA)
def synthetic_errors(inputs: Sequence[Artifact]) -> Rows:
    """Every rule on every synthetic source of the settings."""
    errors, merged = list[dict[str, Any]](), list[dict[str, Any]]()
    for row in _one(inputs, "int4-study-settings").rows("sources"):
        packed, scales = synthetic_blocks(row["source"], row["blocks"], row["seed"], row["scale_rule"])
        some, others = _study(row["source"], packed, scales)
        errors += some
        merged += others
    return {"errors": errors, "merges": merged}


@derivation(name="int4-error-real", schema=ERROR_SCHEMA)
def real_errors(inputs: Sequence[Artifact]) -> Rows:
    """Every rule on feed-forward matrices of SmolLM2-135M, which were Q4_1 before they became MXFP4."""
    row = _one(inputs, "int4-study-weights").rows("weights")[0]
    matrices = real_matrices(row["sha256"])
    names = [f"blk.{layer}.ffn_{part}.weight" for layer in row["layers"] for part in ("gate", "up", "down")]
    flat = np.concatenate([matrices[name].reshape(-1, BLOCK) for name in names])
    packed, scales = encode(flat)
    errors, merged = _study(REAL, packed, scales)
    return {"errors": errors, "merges": merged}


@derivation(name="int4-code-map", schema=MAP_SCHEMA)
def code_maps(inputs: Sequence[Artifact]) -> Rows:
    """Where each magnitude goes in a block that peaks at 4 or at 6, for the rules that see only the peak."""
    _one(inputs, "int4-study-settings")
    rows = []
    for peak in (6, 7):
        codes = np.zeros((1, BLOCK), dtype=np.uint8)
        codes[0, : peak + 1] = np.arange(peak + 1)
        for rule in ("amax7", "amax7.5", "amax8"):
            got = requantise_reference(pack_nibbles(codes), np.array([[127]], dtype=np.uint8), rule)
            values = got.dequantise()[0]
            rows += [
                {
                    "rule": rule,
                    "peak": float(E2M1_VALUES[peak]),
                    "magnitude": float(E2M1_VALUES[k]),
                    "code": int(got.codes[0, k]),
                    "value": float(values[k]),
                }
                for k in range(peak + 1)
            ]
    return {"codes": rows}


@derivation(name="int4-expert-error", schema=EXPERT_SCHEMA)
def expert_output_errors(
    inputs: Sequence[Artifact],
    *,
    width: int = 448,
    inner: int = 384,
    experts: int = 16,
    tokens: int = 64,
    seed: int = 0,
) -> Rows:
    """Errors at the outputs; the default sizes are an eighth of Kimi-K3's 3584 and 3072, to stay short."""
    _one(inputs, "int4-study-settings")
    rows = []
    for source in ("gaussian", "laplace"):
        sizes = {"width": width, "inner": inner, "experts": experts, "tokens": tokens, "seed": seed}
        for rule, errors in expert_errors(source, ("amax7", "mse"), **sizes).items():
            rows += [
                {
                    "source": source,
                    "rule": rule,
                    "stage": stage,
                    "position": position,
                    "relative_rms": errors[stage],
                    "experts": experts,
                    "tokens": tokens,
                }
                for position, stage in enumerate(STAGES)
            ]
    return {"outputs": rows}
