"""Number formats of 4-bit weights, their conversion, and what it costs.

MXFP4 (OCP E2M1 elements, E8M0 scales) and int4 (compressed-tensors uint4b8), conversion rules and a
streaming requantiser.
"""

from k3repro.mxfp4._assignments import assignments, breakpoints, candidates
from k3repro.mxfp4._bf16 import bf16_bits, bf16_round, bf16_truncate, bf16_values
from k3repro.mxfp4._estimate import estimate_requant, worthwhile_jobs
from k3repro.mxfp4._fast import requantise
from k3repro.mxfp4._format import (
    BLOCK,
    E2M1_VALUES,
    MAGNITUDES,
    SCALE_RULES,
    Bytes,
    ScaleRule,
    decode,
    decode_scales,
    encode,
    encode_elements,
    encode_scales,
    pack_nibbles,
    unpack_nibbles,
)
from k3repro.mxfp4._layouts import (
    from_gpt_oss,
    pack_uint4b8,
    to_gpt_oss,
    unpack_uint4b8,
)
from k3repro.mxfp4._plan import RequantPlan, plan_requant
from k3repro.mxfp4._requant import partial_path, requant
from k3repro.mxfp4._rules import RULES, Arithmetic, Int4Blocks, Rule, requantise_reference

__all__ = [
    "BLOCK",
    "E2M1_VALUES",
    "MAGNITUDES",
    "RULES",
    "SCALE_RULES",
    "Arithmetic",
    "Bytes",
    "Int4Blocks",
    "RequantPlan",
    "Rule",
    "ScaleRule",
    "assignments",
    "bf16_bits",
    "bf16_round",
    "bf16_truncate",
    "bf16_values",
    "breakpoints",
    "candidates",
    "decode",
    "decode_scales",
    "encode",
    "encode_elements",
    "encode_scales",
    "estimate_requant",
    "from_gpt_oss",
    "pack_nibbles",
    "pack_uint4b8",
    "partial_path",
    "plan_requant",
    "requant",
    "requantise",
    "requantise_reference",
    "to_gpt_oss",
    "unpack_nibbles",
    "unpack_uint4b8",
    "worthwhile_jobs",
]
