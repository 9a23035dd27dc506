"""The study of one node: published levels read, bounded, priced, and put beside the simulated node."""

from k3repro import registry
from k3repro.studies.node.checklist import seal_checklist
from k3repro.studies.node.economics import seal_costs
from k3repro.studies.node.fidelity import seal_level_fidelity
from k3repro.studies.node.reading import finding_row, read_tables, read_transcription, seal_reading, step_rows
from k3repro.studies.node.roofline import seal_roofline

__all__ = [
    "STUDY",
    "finding_row",
    "read_tables",
    "read_transcription",
    "seal_checklist",
    "seal_costs",
    "seal_level_fidelity",
    "seal_reading",
    "seal_roofline",
    "step_rows",
]

STUDY = registry.Study("node", "One node, many models", __name__)
