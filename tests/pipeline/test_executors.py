"""Executors: local processes, a Dask cluster, and what is said when neither can be had."""

from __future__ import annotations

import sys

import pytest
from pipeline_project import Project

from k3repro.errors import MissingExtra, TargetError, UsageError
from k3repro.pipeline import open_executor


@pytest.mark.parametrize("name", ["dusk", "dask", "dask:", ""])
def test_an_unknown_executor_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="Known: local, inline, dask:ADDRESS"), open_executor(name):
        pass


def test_dask_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(MissingExtra, match=r"pip install 'k3repro\[dask\]'") as caught,
        open_executor("dask:tcp://x:1"),
    ):
        pass
    assert caught.value.exit_code == 3


@pytest.mark.filterwarnings("ignore")
def test_stages_run_on_a_dask_cluster(project: Project) -> None:
    distributed = pytest.importorskip("distributed")
    project.stage("good")
    project.stage("error")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        result = project.run(executor=f"dask:{cluster.scheduler_address}") if client else None
    assert result is not None
    assert [stage.state for stage in result.stages] == ["ran", "failed"]
    assert "line 3 `y = x / 0`" in result.stages[1].error


@pytest.mark.filterwarnings("ignore")
def test_a_dask_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from k3repro.pipeline import _executors as executors

    monkeypatch.setattr(executors, "_DASK_TIMEOUT", "1s")
    with (
        pytest.raises(TargetError, match="no Dask scheduler answers"),
        open_executor("dask:tcp://127.0.0.1:9"),
    ):
        pass
