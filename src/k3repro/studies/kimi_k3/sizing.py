"""sizing-cases: the publication's own workloads asked of the search, beside what is printed of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from k3repro.errors import InputError
from k3repro.sizing import Answer, answer, parse_goal, plan_of
from k3repro.store import Artifact, Col, Row, Schema, derivation
from k3repro.workload import Workload, generate

__all__ = ["CASES", "Case", "sizing_cases"]

_PLATFORMS = ("mi300x", "mi325x")
_LIMIT = "600@p95"


@dataclass(frozen=True, slots=True)
class Case:
    """A question: requests of `isl` and `osl` tokens, or sessions of `profile`, `users` at once.

    `printed` names the cells of twin-fidelity that compare the published deployment: source, cell, quantity.
    """

    name: str
    users: int
    isl: int = 0
    osl: int = 0
    profile: str = ""
    printed: tuple[str, str, str] = ("", "", "")

    def workload(self) -> Workload:
        """The workload that `k3repro capacity size` makes of the same words."""
        said = {"isl": self.isl, "osl": self.osl} if self.isl else {"isl": 1024, "osl": 256}
        return Workload.of(said | {"users": self.users}, generate(self.profile) if self.profile else None)

    def command(self, platform: str, ttft: str) -> str:
        """The command that gives the same answer."""
        what = f"--profile {self.profile}" if self.profile else f"--isl {self.isl} --osl {self.osl}"
        goal = f" --ttft {ttft}" if ttft else ""
        return f"k3repro capacity size {what} --users {self.users}{goal} --platform {platform}"


CASES = (
    Case("one user, short", 1, 1024, 256, printed=("The Concurrency Envelope", "con 1", "wall")),
    Case("32 users at 200K", 32, 200_000, 64, printed=("Long waves, in the text", "200K x 32", "wall_min")),
    Case("100 users at 200K", 100, 200_000, 512),
    Case("one user at 1M", 1, 999_488, 512),
    Case("agentic, small", 16, profile="small", printed=("Table 7", "small, con 16", "ttft_p50_s")),
    Case(
        "agentic, 256K", 16, profile="conformance_256k",
        printed=("Table 7", "conformance_256k, con 16", "ttft_p50_s"),
    ),
    Case(
        "agentic, 512K", 16, profile="conformance_512k",
        printed=("Table 7", "conformance_512k, con 16", "ttft_p50_s"),
    ),
)  # fmt: skip


class Answered(Row, table="cases", key=("case", "platform", "ttft")):
    """Each question on each platform: as published where a cell is printed, and the deployment to choose."""

    position: Annotated[int, Col(doc="order of the questions")]
    case: str
    platform: str
    ttft: Annotated[
        str, Col(doc="limit on the time to first token; empty: the smallest that serves everybody")
    ]
    users: int
    isl: Annotated[int | None, Col("tokens", "NULL: sessions of the profile")]
    osl: Annotated[int | None, Col("tokens")]
    profile: str | None
    printed_quantity: Annotated[str | None, Col(doc="what is printed of the published deployment")]
    printed: Annotated[float | None, Col(doc="in printed_unit")]
    printed_unit: str | None
    simulated: Annotated[float | None, Col(doc="the same quantity of the published deployment on the twin")]
    verdict: Annotated[
        str,
        Col(
            doc="on the fewest nodes that keep the limit as simulated: yes, even with the twin's worst error"
            " there; likely, with its median error; possible, by less; unknown, no printed cell says how"
            " wrong it is; no; fits, no limit"
        ),
    ]
    nodes: int | None
    shape: Annotated[str | None, Col(doc="prefill and decode nodes, after the replicas where there are more")]
    surer: Annotated[str | None, Col(doc="with more nodes: the surest verdict")]
    surer_nodes: Annotated[int | None, Col(doc="fewest nodes for it")]
    max_num_seqs: Annotated[int | None, Col(doc="slots a lane")]
    requests: Annotated[int | None, Col(doc="requests that the percentiles count")]
    ttft_s_p95: Annotated[float | None, Col("s", "simulated")]
    tpot_ms_p95: Annotated[float | None, Col("ms", "simulated")]
    e2e_s_p95: Annotated[float | None, Col("s", "simulated")]
    ttft_error: Annotated[
        float | None, Col(doc="median error of the twin in the nearest regime; NULL: unknown")
    ]
    binds: Annotated[str | None, Col(doc="phase that most of the time goes to")]
    why: Annotated[str | None, Col(doc="why not, or what is uncertain")]
    command: Annotated[str, Col(doc="gives the same answer")]


@derivation(name="sizing-cases", schema=Schema((Answered.TABLE,)))
def sizing_cases(inputs: Sequence[Artifact]) -> Mapping[str, Sequence[Row]]:
    """Size every case on both platforms, without a limit and with a first token within ten minutes.

    Raises:
        InputError: twin-fidelity or twin-calibration is missing, or has no cell that a case names.
    """
    by_name = {artifact.name: artifact for artifact in inputs}
    if missing := {"twin-fidelity", "twin-calibration"} - set(by_name):
        raise InputError(f"no {' and no '.join(sorted(missing))} among the inputs")
    return {"cases": list(_rows(by_name["twin-fidelity"], by_name["twin-calibration"]))}


def _rows(fidelity: Artifact, calibration: Artifact) -> Iterator[Row]:
    cells = {
        (row["platform"], row["source"], row["cell"], row["quantity"]): row for row in fidelity.rows("cells")
    }
    for position, case in enumerate(CASES):
        compared = {name: cells.get((name, *case.printed)) for name in _PLATFORMS}
        if case.printed[0] and not any(compared.values()):
            raise InputError(f"twin-fidelity has no cell {case.printed}, which {case.name!r} names")
        workload = case.workload()
        plan = plan_of(workload)
        for name in _PLATFORMS:
            for ttft in ("", _LIMIT):
                goals = [parse_goal("ttft", ttft)] if ttft else []
                given = answer(
                    name, plan, goals, errors=fidelity.rows("cells"),
                    constants=calibration.rows("constants"), sensitivity=False,
                )  # fmt: skip
                yield _row(position, case, name, ttft, given, compared[name] or {})


def _row(
    position: int, case: Case, name: str, ttft: str, given: Answer, cell: Mapping[str, Any]
) -> Row:  # fmt: skip
    data = given.as_dict()
    choice: Mapping[str, Any] = data["choice"] or {}
    surest: Mapping[str, Any] = data["surer"][-1] if data["surer"] else {}
    return Answered(
        position=position, case=case.name, platform=name, ttft=ttft, users=case.users,
        isl=case.isl or None, osl=case.osl or None, profile=case.profile or None,
        printed_quantity=cell.get("quantity"), printed=cell.get("printed"),
        printed_unit=cell.get("unit"), simulated=cell.get("simulated"), verdict=given.verdict,
        nodes=data["nodes"], shape=choice.get("shape"), surer=surest.get("verdict"),
        surer_nodes=surest.get("nodes"), max_num_seqs=choice.get("max_num_seqs"),
        requests=choice.get("requests"), ttft_s_p95=choice.get("ttft_s_p95"),
        tpot_ms_p95=choice.get("tpot_ms_p95"), e2e_s_p95=choice.get("e2e_s_p95"),
        ttft_error=data["fidelity"].get("ttft", {}).get("median_error") if choice else None,
        binds=given.binds or None, why="; ".join(given.reasons) or None, command=case.command(name, ttft),
    )  # fmt: skip
