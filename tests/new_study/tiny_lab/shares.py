"""roofline-share: how much of what the hardware allows each printed level reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from k3repro.errors import InputError
from k3repro.store import Artifact, Col, Row, Rows, Schema, derivation


class Share(Row, table="shares", key=("concurrency",)):
    """One printed level beside its bound."""

    concurrency: Annotated[int, Col("requests")]
    share: Annotated[float, Col(doc="printed rate over what the roofline allows at the stated load")]


@derivation(name="roofline-share", schema=Schema((Share.TABLE,)))
def roofline_shares(inputs: Sequence[Artifact]) -> Rows:
    """Shares of the stated levels of one `roofline` artifact.

    Raises:
        InputError: it is not among the inputs.
    """
    bounds = next((artifact for artifact in inputs if artifact.name == "roofline"), None)
    if bounds is None:
        raise InputError("nothing to compare with", fix="Give the artifact roofline@tiny-lab.")
    rows = [row for row in bounds.rows("cells") if row["lengths"] == "stated"]
    return {
        "shares": [
            Share(concurrency=row["concurrency"], share=row["published"] / row["overlap"]) for row in rows
        ]
    }
