"""The int4 study: what converting MXFP4 weights to int4 costs, by rule and by source of weights."""

from k3repro import registry

__all__ = ["STUDY"]

STUDY = registry.Study("int4", "MXFP4 to int4", __name__)
