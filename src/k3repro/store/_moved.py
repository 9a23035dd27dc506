"""Producers whose module moved. An artifact keeps the name it was sealed under and means the same producer.

Used wherever producers are compared or looked up (identity, recompute, citability, replacement), so that
nothing is sealed again because a module has another name. Names on the left are never used again.
"""

from __future__ import annotations

__all__ = ["current_producer"]

_MOVED = {
    "k3repro.twin.calibration": "k3repro.studies.kimi_k3.calibration",
    "k3repro.twin.fidelity": "k3repro.studies.kimi_k3.fidelity",
    "k3repro.capacity.prefill": "k3repro.studies.kimi_k3.prefill",
    "k3repro.capacity.publication": "k3repro.studies.kimi_k3.publication",
    "k3repro.capacity.roofline": "k3repro.studies.node.roofline",
    "k3repro.capacity.economics": "k3repro.studies.node.economics",
    "k3repro.twin.single_fidelity": "k3repro.studies.node.fidelity",
    "k3repro.bringup.checklist": "k3repro.studies.node.checklist",
    "k3repro.claims.reading": "k3repro.studies.node.reading",
    "k3repro.mxfp4.study": "k3repro.studies.int4.study",
}


def current_producer(producer: str) -> str:
    """`module:function` as it is called today."""
    module, colon, function = producer.partition(":")
    return f"{_MOVED.get(module, module)}{colon}{function}"
