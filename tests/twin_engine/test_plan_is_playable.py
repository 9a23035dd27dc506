"""The engine takes the very commands that a bring-up plan renders, and they fit the GPU they are for."""

from __future__ import annotations

import pytest

from k3repro.bringup import load_cluster, load_recipe, make_plan
from k3repro.serve.lines import parse_kv_lines
from k3repro.serve.startup import parse_startup
from k3repro.twin import platform
from k3repro.twin.engine import read_launch
from k3repro.twin.engine._log import log_to
from k3repro.twin.engine._physics import platform_of
from k3repro.twin.engine._ping import registration
from k3repro.twin.engine._startup import Startup

PRINTED = {"mi300x": (916_875, 900_000), "mi325x": (2_836_158, 1_000_000)}


@pytest.mark.parametrize(("cluster", "gpu"), [("mi300x-cx7", "mi300x"), ("mi325x-thor2", "mi325x")])
def test_every_role_of_the_plan(cluster: str, gpu: str) -> None:
    loaded = load_cluster(cluster)
    plan = make_plan(load_recipe(loaded.recipe), loaded)
    assert len(plan.launches) == 4
    for planned in plan.launches:
        arguments = planned.engine[1 + planned.engine.index("serve") :]
        launch = read_launch(arguments, {"VLLM_HOST_IP": "192.0.2.1"})
        assert launch.role == planned.role
        lines: list[str] = []
        startup = Startup(launch, gpu, "0.27", log_to(lines.append))
        startup.engine_lines("abc")
        pools = parse_kv_lines(lines)
        assert [(pool.tokens, pool.max_model_len) for pool in pools] == [PRINTED[gpu]] * 4
        facts = parse_startup(lines)
        assert facts.ranks == set(launch.lanes) and not facts.fatal and not facts.unmatched
        fitted = platform_of(launch, platform(gpu), pool=startup.pool, graph=startup.graph)
        assert (fitted.lanes, fitted.max_num_seqs) == (8, launch.max_num_seqs)
        ping = registration(launch)
        assert ping["type"] == ("P" if planned.role.startswith("prefill") else "D")
        assert (ping["dp_size"], ping["tp_size"], ping["transfer_mode"]) == (8, 2, "WRITE")
