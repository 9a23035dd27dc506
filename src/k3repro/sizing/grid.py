"""sizing-grid: answers simulated ahead, so that a page can give them without a simulator.

Of each workload only candidates that could ever be chosen, or be surer than a chosen one, are kept: whatever
the limits are, `choose` of the kept rows is `search` of all. A prompt that no decode lane of a
platform holds has no rows there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from operator import le
from typing import Any

from k3repro.errors import InputError
from k3repro.sizing._answer import binding
from k3repro.sizing._candidate import Candidate
from k3repro.sizing._fidelity import Band, Fidelity
from k3repro.sizing._goals import METRICS, Goal
from k3repro.sizing._search import rank, search
from k3repro.sizing._trial import Plan, Trial, held, plan_of
from k3repro.store import Artifact, Column, Schema, Table, derivation
from k3repro.workload import Workload

__all__ = ["ISL", "MOST_NODES", "OSL", "USERS", "sizing_grid"]

ISL = (1024, 8192, 32_000, 100_000, 200_000, 400_000, 998_976)
"""Up to a million tokens with the longest reply, which MI325X takes and MI300X does not."""
OSL = (256, 1024)
USERS = (1, 16, 32, 64, 100, 256)
MOST_NODES = 32
_PERCENTILES = (50, 95)
KEYS = tuple(f"{quantity}_p{q}" for quantity, _, _ in METRICS.values() for q in _PERCENTILES)
_LATENCIES = tuple(
    Column(key, "DOUBLE", unit=key.split("_")[1], doc="simulated, to four significant digits") for key in KEYS
)
_ERRORS = tuple(
    Column(f"{metric}_{kind}", "DOUBLE", doc=doc)
    for kind, doc in (
        ("error", "median error of the twin in the nearest regime; NULL: unknown"),
        ("factor", "the same as a factor between the real time and the simulated one, either way"),
        ("worst", "factor of the worst held-out cell; NULL: fewer than three cells say so"),
    )
    for metric in METRICS
)

ROWS = Table(
    "rows",
    (
        Column("platform", "VARCHAR"),
        Column("isl", "INT64", unit="tokens"),
        Column("osl", "INT64", unit="tokens"),
        Column("users", "INT64", doc="closed loop, no think time"),
        Column("replicas", "INT64", doc="equal deployments of these pools, each with its own router"),
        Column("prefill_pools", "INT64"),
        Column("decode_pools", "INT64"),
        Column("max_num_seqs", "INT64", doc="slots a lane"),
        Column("nodes", "INT64"),
        Column("requests", "INT64", doc="requests that the percentiles count"),
        *_LATENCIES,
        Column("tokens_per_s", "DOUBLE", unit="tokens/s"),
        Column("out_tokens_per_s", "DOUBLE", unit="tokens/s"),
        *_ERRORS,
        Column("binds_ttft", "VARCHAR", doc="phase that most of the time to the first token goes to"),
        Column("binds_e2e", "VARCHAR", doc="phase that most of a request's time goes to"),
    ),
    key=("platform", "isl", "osl", "users", "replicas", "prefill_pools", "decode_pools", "max_num_seqs"),
    doc="Deployments worth choosing for a workload, with published settings.",
)
STEPS = Table(
    "steps",
    (
        Column("platform", "VARCHAR"),
        Column("isl", "INT64", unit="tokens"),
        Column("users", "INT64"),
        Column("osl", "INT64", unit="tokens"),
        Column("limit_s", "DOUBLE", unit="s", doc="limit on the first token at p95"),
        Column("nodes", "INT64", doc="fewest that keep it"),
        Column("shape", "VARCHAR", doc="prefill and decode nodes"),
        Column("requests", "INT64", doc="requests that the percentiles count"),
        Column("ttft_s_p95", "DOUBLE", unit="s"),
        Column("tpot_ms_p95", "DOUBLE", unit="ms"),
    ),
    key=("platform", "isl", "users"),
    doc="Nodes against users for the shortest reply of the grid.",
)
SCHEMA = Schema((ROWS, STEPS))


@derivation(name="sizing-grid", schema=SCHEMA)
def sizing_grid(
    inputs: Sequence[Artifact], isl: Sequence[int] = ISL, osl: Sequence[int] = OSL,
    users: Sequence[int] = USERS, most_nodes: int = MOST_NODES, limit_s: float = 60.0,
) -> Mapping[str, Sequence[Mapping[str, Any]]]:  # fmt: skip
    """Simulate the grid with the constants of the twin.

    Raises:
        InputError: twin-fidelity is not among the inputs: no answer without its error.
    """
    fidelity = next((artifact for artifact in inputs if artifact.name == "twin-fidelity"), None)
    if fidelity is None:
        raise InputError("no twin-fidelity among the inputs")
    known = Fidelity(fidelity.rows("cells"))
    rows: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    for name in ("mi300x", "mi325x"):
        for prompt in isl:
            for reply in osl:
                for count in users:
                    plan = plan_of(Workload.of({"isl": prompt, "osl": reply, "users": count}))
                    found = search(name, plan, (), most_nodes=most_nodes, all_of_them=True)
                    point = {"platform": name, "isl": prompt, "osl": reply, "users": count}
                    kept = list(worth_choosing(found.trials, plan, known))
                    rows += _rows(kept, plan, point, known)
                    if reply == osl[0]:
                        steps += _step(kept, point, limit_s)
    return {"rows": rows, "steps": steps}


def _rows(
    trials: Sequence[Trial], plan: Plan, point: Mapping[str, Any], known: Fidelity
) -> Iterator[dict[str, Any]]:
    for trial in trials:
        one, values = trial.candidate, trial.values
        bands = {metric: known.of(trial, plan, metric) for metric in METRICS}
        yield {
            **point,
            "replicas": one.replicas, "prefill_pools": one.prefill_pools, "decode_pools": one.decode_pools,
            "max_num_seqs": one.settings.max_num_seqs, "nodes": one.nodes, "requests": trial.requests,
            **{key: values[key] for key in (*KEYS, "tokens_per_s", "out_tokens_per_s")},
            **{
                f"{metric}_{kind}": getattr(band, name) if isinstance(band, Band) else None
                for metric, band in bands.items()
                for kind, name in (("error", "median"), ("factor", "factor"), ("worst", "worst_factor"))
            },
            "binds_ttft": binding(trial, Goal("ttft", 1.0)), "binds_e2e": binding(trial, Goal("e2e", 1.0)),
        }  # fmt: skip


def _step(trials: Sequence[Trial], point: Mapping[str, Any], limit_s: float) -> Iterator[dict[str, Any]]:
    kept = sorted((trial for trial in trials if trial.values["ttft_s_p95"] <= limit_s), key=rank)
    for trial in kept[:1]:
        yield {
            **point, "limit_s": limit_s, "nodes": trial.candidate.nodes, "shape": trial.candidate.shape,
            "requests": trial.requests,
            "ttft_s_p95": trial.values["ttft_s_p95"], "tpot_ms_p95": trial.values["tpot_ms_p95"],
        }  # fmt: skip


def worth_choosing(trials: Sequence[Trial], plan: Plan, known: Fidelity) -> Iterator[Trial]:
    """Trials that no cheaper or equal one beats in every latency and in what is known of its errors, with the
    latencies that hold for as many users or fewer.
    """
    kept: list[tuple[Trial, tuple[float, ...]]] = []
    for trial in sorted(trials, key=rank):
        doubt = tuple(_doubt(known, trial.candidate, plan))
        if not _beaten(trial, doubt, kept) and not _beaten(trial := held(trial, plan), doubt, kept):
            kept.append((trial, doubt))
            yield trial


def _beaten(
    trial: Trial, doubt: tuple[float, ...], kept: Sequence[tuple[Trial, tuple[float, ...]]]
) -> bool:  # fmt: skip
    return any(
        all(map(le, less, doubt)) and all(one.values[key] <= trial.values[key] for key in KEYS)
        for one, less in kept
    )


def _doubt(known: Fidelity, candidate: Candidate, plan: Plan) -> Iterator[float]:
    for metric in METRICS:
        band = known.hope(candidate, plan, metric)
        yield band.factor if isinstance(band, Band) else inf
        yield band.worst_factor or inf if isinstance(band, Band) else inf
