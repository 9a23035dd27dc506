"""The artifact of a bring-up: its timeline, and what every lane printed beside the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k3repro.bringup._state import State
from k3repro.store import Artifact, Column, Header, Schema, Store, Table

TIMELINE = Table(
    "timeline",
    (
        Column("step", "INT64", nullable=False),
        Column("at_s", "DOUBLE", unit="s", doc="since the bring-up began"),
        Column("phase", "VARCHAR"),
        Column("what", "VARCHAR"),
    ),
    key=("step",),
    doc="What was done and seen, in order.",
)
LANES = Table(
    "lanes",
    (
        Column("role", "VARCHAR", nullable=False),
        Column("lane", "INT64", nullable=False),
        Column("printed_tokens", "INT64", unit="tokens"),
        Column("predicted_tokens", "INT64", unit="tokens"),
        Column("printed_concurrency", "DOUBLE"),
        Column("predicted_concurrency", "DOUBLE"),
        Column("agrees", "BOOL"),
    ),
    key=("role", "lane"),
    doc="KV lines of every lane against the block law.",
)
ROLES_TABLE = Table(
    "roles",
    (
        Column("role", "VARCHAR", nullable=False),
        Column("moe", "VARCHAR", doc="expert path named in the log"),
        Column("graph", "VARCHAR", doc="graph mode named in the log"),
        Column("unmatched", "INT64", unit="lines", doc="log lines no pattern knows"),
    ),
    key=("role",),
    doc="What each role said.",
)
SCHEMA = Schema((TIMELINE, LANES, ROLES_TABLE))


def seal_bring_up(store: Store, state: State, serve: Mapping[str, Any], recipe: str) -> Artifact:
    """Seal a bring-up. `serve`: facts of the serve, from which the store works out the tier."""
    header = Header(
        "bring-up", f"cluster:{state.cluster}", "bring-up", "k3repro.bringup:bring_up",
        parameters={"serve": state.serve, "plan": state.digest, "recipe": recipe},
        serve=dict(serve), clock="wall",
    )  # fmt: skip
    facts = state.facts.get("startup", {})
    begun = state.timeline[0]["at"] if state.timeline else 0.0
    rows = {
        "timeline": [
            {"step": i, "at_s": round(item["at"] - begun, 3), "phase": item["phase"], "what": item["what"]}
            for i, item in enumerate(state.timeline)
        ],
        "lanes": [dict(lane) for lane in facts.get("lanes", ())],
        "roles": [
            {"role": role, "moe": facts["moe"][role], "graph": facts["graph"][role], "unmatched": count}
            for role, count in facts.get("unmatched", {}).items()
        ],
    }
    with store.begin(header, SCHEMA) as run:
        run.commit("bring-up", rows)
        findings = list(facts.get("findings", ()))
        return run.seal(verdict={"ok": not findings, "reasons": findings})
