"""The study of a tiny lab: what its document prints, and how much of the roofline that is."""

from k3repro.registry import Study
from tiny_lab.shares import roofline_shares

__all__ = ["STUDY", "roofline_shares"]

STUDY = Study("tiny_lab", "A tiny lab", __name__)
