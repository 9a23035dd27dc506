"""What the twin was set on, by its own word; what follows for each cell is in the artifact `relation`."""

from __future__ import annotations

import re

from k3repro.twin import platform_sources


def test_the_twin_was_set_on_few_cells() -> None:
    """A new source in platforms.toml is a decision: it takes cells out of what is held out."""
    used = {
        text
        for name in ("mi300x", "mi325x")
        for text in platform_sources(name).values()
        if "in-sample" in text
    }
    places = {match for text in used for match in re.findall(r"Table \d|wall law|Figure \d", text)}
    assert places == {"Table 3", "Table 4", "Table 7", "wall law"}
    table_4 = {text for text in used if "Table 4" in text}
    assert all("concurrency 32 at MAX_NUM_SEQS 8" in text for text in table_4)
    assert all("small, concurrency 1" in text for text in used if "Table 7" in text)
    assert all("200K x 32" in text for text in used if "waves" in text)
