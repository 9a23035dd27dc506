"""What runs and what does not, and that the reason is named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pipeline_project import Project

from k3repro.errors import PipelineError
from k3repro.pipeline import RunPlan, explain

pytestmark = pytest.mark.slow

MEASURED = {
    "evidence": [{"kind": "build_info", "value": "vllm 0.32"}, {"kind": "metrics", "value": "vllm:x"}]
}


def states(project: Project, **options: object) -> dict[str, str]:
    return {stage.stage: stage.state for stage in project.run(**options).stages}


def why(project: Project, **options: object) -> dict[str, tuple[str, tuple[str, ...]]]:
    plan: RunPlan = explain(project.file, store=project.store, **options)
    return {item.stage.name: (item.judgement.state, item.judgement.reasons) for item in plan.stages}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """tiny -> sum, both run once."""
    project = Project(tmp_path_factory.mktemp("template") / "project")
    project.stage(
        "tiny", "good", parameters='{ SUBJECT = "twin:tiny", SCALE = 1.0 }', seals='["tiny@{SUBJECT}"]'
    )
    project.stage(
        "sum",
        "derives",
        inputs='["tiny@twin:tiny"]',
        seals='["sum@twin:tiny"]',
        code='["k3repro.units.stats"]',
    )
    assert states(project) == {"tiny": "ran", "sum": "ran"}
    return project


@pytest.fixture
def chain(template: Project, tmp_path: Path) -> Project:
    """A copy of the template: what was fresh there is fresh in another folder."""
    shutil.copytree(template.root, tmp_path / "copy")
    return Project.at(tmp_path / "copy")


def test_nothing_changed_runs_nothing_and_changes_no_byte(chain: Project) -> None:
    before = {path: path.read_bytes() for path in chain.root.rglob("*") if path.is_file()}
    assert states(chain) == {"tiny": "fresh", "sum": "fresh"}
    assert why(chain) == {"tiny": ("fresh", ()), "sum": ("fresh", ())}
    assert {path: path.read_bytes() for path in chain.root.rglob("*") if path.is_file()} == before


def test_a_fresh_pipeline_imports_no_notebook_tool(chain: Project) -> None:
    code = (
        "import sys; from k3repro.cli import main\n"
        f"try: main(['run', {str(chain.file)!r}])\n"
        "except SystemExit as error: assert not error.code\n"
        "tools = {'papermill', 'nbclient', 'nbformat', 'jupyter_client', 'IPython', 'rich'}\n"
        "assert not tools & set(sys.modules), tools & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=chain.root)


def test_a_parameter_names_itself_and_moves_what_depends_on_it(chain: Project) -> None:
    chain.replace("SCALE = 1.0", "SCALE = 2.0")
    assert why(chain) == {
        "tiny": ("stale", ("parameter SCALE: 1.0 -> 2.0",)),
        "sum": ("waits", ("runs if tiny seals something new",)),
    }
    assert states(chain) == {"tiny": "ran", "sum": "ran"}


def test_an_upstream_run_that_seals_the_same_data_moves_nothing(chain: Project) -> None:
    notebook = chain.notebook("good")
    notebook.write_text(notebook.read_text().replace("Seals tiny@SUBJECT.", "Other words."))
    assert why(chain)["tiny"] == ("stale", ("the notebook's source changed",))
    assert states(chain) == {"tiny": "ran", "sum": "fresh"}


def test_an_input_that_changed_elsewhere_is_named(chain: Project) -> None:
    old = chain.store.find("tiny@twin:tiny").seal
    new = chain.seal("twin:tiny", [1.0, 5.0])
    chain.store.supersede(old, new, "made again by hand")
    assert why(chain)["sum"] == ("stale", (f"input tiny@twin:tiny: {old[:12]} -> {new[:12]}",))


def test_another_artifact_of_the_same_name_beside_what_a_stage_sealed_moves_nothing(chain: Project) -> None:
    chain.seal("twin:tiny", [1.0, 5.0])
    assert states(chain) == {"tiny": "fresh", "sum": "fresh"}


def test_saved_outputs_do_not_make_a_stage_stale(chain: Project) -> None:
    notebook = chain.notebook("good")
    document = json.loads(notebook.read_text())
    document["cells"][-1]["execution_count"] = 3
    notebook.write_text(json.dumps(document))
    assert why(chain)["tiny"][0] == "fresh"


def test_a_lost_or_edited_executed_notebook_is_made_again(chain: Project) -> None:
    good = chain.executed("tiny").read_bytes()
    chain.executed("tiny").write_text("{}")
    assert why(chain)["tiny"] == ("stale", ("the executed notebook was edited",))
    chain.executed("tiny").unlink()
    assert why(chain)["tiny"] == ("stale", ("the executed notebook is missing",))
    assert states(chain) == {"tiny": "ran", "sum": "fresh"}
    assert chain.executed("tiny").read_bytes() == good


def test_a_lost_artifact_is_named(chain: Project) -> None:
    seal = chain.store.find("sum@twin:tiny").seal
    chain.store.retract(seal, "for the test")
    assert why(chain)["sum"] == ("stale", (f"artifact sum@twin:tiny {seal[:12]} was withdrawn or replaced",))


def test_code_names_the_module_that_changed(chain: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from k3repro.pipeline import _codes as codes

    monkeypatch.setattr(codes, "_touched", lambda entry: True)
    monkeypatch.setattr(codes, "code_hash", lambda module: "other")
    monkeypatch.setattr(codes, "_digest", lambda name: "other" if name.endswith("stats") else "")
    state, (reason,) = why(chain)["sum"]
    assert state == "stale"
    assert reason.startswith("code of k3repro.units.stats changed (in k3repro.units.stats")


def test_an_unknown_module_is_a_mistake(chain: Project) -> None:
    chain.replace("k3repro.units.stats", "k3repro.units.stas")
    with pytest.raises(PipelineError, match=r"stage 'sum': code: no module 'k3repro.units.stas'"):
        explain(chain.file, store=chain.store)


def test_fresh_forces_and_two_runs_give_the_same_bytes(project: Project) -> None:
    project.stage("noise")
    project.run()
    before = project.executed("noise").read_bytes()
    assert why(project, fresh=True)["noise"] == ("stale", ("--fresh",))
    assert states(project, fresh=True, executor="local") == {"noise": "ran"}
    assert project.executed("noise").read_bytes() == before


def test_a_damaged_record_means_run_again(chain: Project) -> None:
    for record in (chain.root / "artifacts" / ".cache" / "pipeline" / "t").glob("*.json"):
        record.write_text(record.read_text()[:40])
    assert why(chain)["tiny"] == ("stale", ("it has not run here yet",))


def test_a_measured_artifact_never_goes_stale_by_itself(project: Project) -> None:
    project.stage(
        "tiny", "good", parameters='{ SUBJECT = "twin:tiny", SCALE = 1.0 }', seals='["tiny@{SUBJECT}"]'
    )
    project.seal("twin:tiny", [1.0, 2.0], serve=MEASURED)
    assert project.store.find("tiny@twin:tiny").tier == "measured"
    project.replace("SCALE = 1.0", "SCALE = 7.0")
    assert why(project)["tiny"][0] == "preserved"
    assert why(project, fresh=True)["tiny"][0] == "preserved"
    assert states(project, fresh=True) == {"tiny": "preserved"}
    assert why(project, remeasure=["tiny"])["tiny"] == ("stale", ("--remeasure",))
    assert states(project, remeasure=["tiny"]) == {"tiny": "ran"}
    with pytest.raises(PipelineError, match=r"unknown stage 'tinny'. Did you mean tiny\?"):
        project.run(remeasure=["tinny"])


def test_a_stage_with_a_serve_is_costed_and_wants_a_target(project: Project) -> None:
    serve = '{ recipe = "k3-2p2d", nodes = 4, requests = 120, hours = 0.5, reuse_group = "a" }'
    for name, group in (("one", "a"), ("two", "a"), ("three", "b")):
        project.stage(
            name,
            "good",
            parameters=f'{{ SUBJECT = "twin:{name}" }}',
            seals='["tiny@{SUBJECT}"]',
            serve=serve.replace('"a"', f'"{group}"'),
        )
    plan = explain(project.file, store=project.store)
    assert plan.cost == {"launches": 2, "requests": 360, "hours": 1.5, "node_hours": 6.0}
    project.replace("requests = 120, ", "")
    assert explain(project.file, store=project.store).cost["requests"] is None
    with pytest.raises(PipelineError, match="stage 'one': needs a serve of recipe 'k3-2p2d'"):
        project.run()


def test_the_memory_of_code_hashes_sees_an_edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from k3repro.pipeline import _codes as codes

    package = tmp_path / "k3repro"
    package.mkdir()
    module = package / "thing.py"
    module.write_text("x = 1\n")
    monkeypatch.setattr(codes, "_PACKAGE", package)
    monkeypatch.setattr(codes, "code_closure", lambda name: [name])
    monkeypatch.setattr(codes, "code_hash", lambda name: module.read_text())
    assert codes.Codes(tmp_path / "m.json").hash_of("k3repro.thing") == "x = 1\n"
    module.write_text("x = 22\n")
    assert codes.Codes(tmp_path / "m.json").hash_of("k3repro.thing") == "x = 22\n"


def test_a_view_of_everything_runs_last_and_again_when_anything_is_sealed(chain: Project) -> None:
    chain.file.write_text(chain.file.read_text().replace("[[stage]]", "[[stage]]\n", 1))
    chain.stage("shows", "writes-view", view="true", inputs='["*"]')
    assert states(chain) == {"tiny": "fresh", "sum": "fresh", "shows": "ran"}
    assert states(chain)["shows"] == "fresh"
    chain.seal("twin:other", [4.0])
    assert why(chain)["shows"][0] == "stale"
    chain.replace("SCALE = 1.0", "SCALE = 2.0")
    assert states(chain) == {"tiny": "ran", "sum": "ran", "shows": "ran"}


def test_what_a_removed_stage_left_is_swept(chain: Project) -> None:
    failed = chain.executed("sum").with_name("sum.failed.ipynb")
    failed.write_text("{}")
    chain.file.write_text(chain.file.read_text().split('\n[[stage]]\nname = "sum"')[0] + "\n")
    assert states(chain) == {"tiny": "fresh"}
    assert not chain.executed("sum").exists()
    assert not failed.exists()
    assert chain.executed("tiny").exists()


@pytest.fixture
def reader(project: Project) -> Project:
    """One stage that reads two files, run once."""
    for name in ("a", "b"):
        (project.root / "facts" / "deep").mkdir(parents=True, exist_ok=True)
        (project.root / "facts" / "deep" / f"{name}.toml").write_text(f"{name} = 1\n")
    project.stage(
        "tiny",
        "good",
        parameters='{ SUBJECT = "twin:tiny" }',
        seals='["tiny@{SUBJECT}"]',
        files='["facts/**/*.toml"]',
    )
    assert states(project) == {"tiny": "ran"} and states(project) == {"tiny": "fresh"}
    return project


def test_a_file_that_changes_comes_or_goes_is_named(reader: Project) -> None:
    facts = reader.root / "facts" / "deep"
    (facts / "a.toml").write_text("a = 2\n")
    assert why(reader)["tiny"] == ("stale", ("file facts/deep/a.toml changed",))
    (facts / "a.toml").write_text("a = 1\n")
    assert why(reader)["tiny"] == ("fresh", ())
    (facts / "c.toml").write_text("")
    (facts / "b.toml").unlink()
    said = ("file facts/deep/c.toml is new", "file facts/deep/b.toml was removed")
    assert why(reader)["tiny"] == ("stale", said)
    assert states(reader) == {"tiny": "ran"} and states(reader) == {"tiny": "fresh"}


def test_a_file_that_changes_under_a_run_makes_it_run_again(
    reader: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from k3repro.pipeline import _runner

    fact = reader.root / "facts" / "deep" / "a.toml"
    real = _runner.run_job

    def edits(job: object) -> object:
        outcome = real(job)
        fact.write_text("a = 3\n")
        return outcome

    monkeypatch.setattr(_runner, "run_job", edits)
    (stage,) = reader.run(fresh=True).stages
    assert stage.state == "ran"
    assert stage.warning == "facts/deep/a.toml changed while it ran; the next run does it again"
    assert why(reader)["tiny"] == ("stale", ("file facts/deep/a.toml changed",))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("facts/dep/*.toml", r"no file matches 'facts/dep/\*.toml'.*Did you mean deep"),
        ("facts/deep/*.json", r"no file matches"),
        ("facts/a**", "is no pattern"),
        ("../*.toml", "leaves the project"),
        ("/etc/hostname", "leaves the project"),
    ],
)
def test_a_pattern_that_finds_nothing_is_a_mistake(reader: Project, pattern: str, said: str) -> None:
    reader.replace("facts/**/*.toml", pattern)
    with pytest.raises(PipelineError, match=said):
        explain(reader.file, store=reader.store)
