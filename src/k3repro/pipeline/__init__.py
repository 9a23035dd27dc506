"""Pipelines: stages in TOML, one notebook each, run when stale and believed only for what they sealed."""

from k3repro.pipeline._executors import InlineExecutor, open_executor
from k3repro.pipeline._freshness import Freshness, Judgement
from k3repro.pipeline._job import Failure, Job, Receipt, StageOutcome
from k3repro.pipeline._load import find_pipeline, load_pipeline
from k3repro.pipeline._normal import normalise
from k3repro.pipeline._plan import Planned, RunPlan
from k3repro.pipeline._progress import Live, Notebook, Plain, Reporter, Row, Silent, reporter
from k3repro.pipeline._results import PipelineResult, StageResult
from k3repro.pipeline._runner import default_store, explain, run_pipeline
from k3repro.pipeline._spec import PIPELINE_KEYS, SERVE_KEYS, STAGE_KEYS, Pipeline, Serve, Stage

__all__ = [
    "PIPELINE_KEYS",
    "SERVE_KEYS",
    "STAGE_KEYS",
    "Failure",
    "Freshness",
    "InlineExecutor",
    "Job",
    "Judgement",
    "Live",
    "Notebook",
    "Pipeline",
    "PipelineResult",
    "Plain",
    "Planned",
    "Receipt",
    "Reporter",
    "Row",
    "RunPlan",
    "Serve",
    "Silent",
    "Stage",
    "StageOutcome",
    "StageResult",
    "default_store",
    "explain",
    "find_pipeline",
    "load_pipeline",
    "normalise",
    "open_executor",
    "reporter",
    "run_pipeline",
]
