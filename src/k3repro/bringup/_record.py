"""The artifact of a bring-up: its timeline, and what every DP rank printed beside the prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from k3repro.bringup._state import State
from k3repro.store import Artifact, Col, Header, Row, Rows, Schema, Store


class Moment(Row, table="timeline", key=("step",)):
    """What was done and seen, in order."""

    step: int
    at_s: Annotated[float | None, Col("s", "since the bring-up began")]
    phase: str | None
    what: str | None


class RankLine(Row, table="lanes", key=("role", "lane")):
    """KV lines of every DP rank against the block law."""

    role: str
    lane: int
    printed_tokens: Annotated[int | None, Col("tokens")]
    predicted_tokens: Annotated[int | None, Col("tokens")]
    printed_concurrency: float | None
    predicted_concurrency: float | None
    agrees: bool | None


class RoleLine(Row, table="roles", key=("role",)):
    """What each role said."""

    role: str
    moe: Annotated[str | None, Col(doc="expert path named in the log")]
    graph: Annotated[str | None, Col(doc="graph mode named in the log")]
    unmatched: Annotated[int | None, Col("lines", "log lines no pattern knows")]


SCHEMA = Schema((Moment.TABLE, RankLine.TABLE, RoleLine.TABLE))


def seal_bring_up(store: Store, state: State, serve: Mapping[str, Any], recipe: str) -> Artifact:
    """Seal a bring-up. `serve`: facts of the serve, from which the store works out the tier."""
    header = Header(
        "bring-up", f"cluster:{state.cluster}", "bring-up", "k3repro.bringup:bring_up",
        parameters={"serve": state.serve, "plan": state.digest, "recipe": recipe},
        serve=dict(serve), clock="wall",
    )  # fmt: skip
    facts = state.facts.get("startup", {})
    begun = state.timeline[0]["at"] if state.timeline else 0.0
    rows: Rows = {
        "timeline": [
            Moment(step=i, at_s=round(item["at"] - begun, 3), phase=item["phase"], what=item["what"])
            for i, item in enumerate(state.timeline)
        ],
        "lanes": [RankLine(lane=rank.pop("rank"), **rank) for rank in map(dict, facts.get("ranks", ()))],
        "roles": [
            RoleLine(role=role, moe=facts["moe"][role], graph=facts["graph"][role], unmatched=count)
            for role, count in facts.get("unmatched", {}).items()
        ],
    }
    with store.begin(header, SCHEMA) as run:
        run.commit("bring-up", rows)
        findings = list(facts.get("findings", ()))
        return run.seal(verdict={"ok": not findings, "reasons": findings})
