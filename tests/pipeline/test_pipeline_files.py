"""Pipeline files: every mistake is one line that names file, stage and key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import PipelineError
from k3repro.pipeline import STAGE_KEYS, find_pipeline, load_pipeline

HEAD = '[pipeline]\nname = "t"\n'


def stage(name: str, *lines: str, seals: str = '["x@{TARGET}"]') -> str:
    parameters = (
        () if any(line.startswith("parameters") for line in lines) else ('parameters = { TARGET = "twin" }',)
    )
    body = (f'name = "{name}"', 'notebook = "n.ipynb"', f"seals = {seals}", *parameters, *lines)
    return "\n".join(("[[stage]]", *body)) + "\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pipelines" / "t.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + stage("a", "paramters = {}"), "stage 'a': unknown key 'paramters'. Did you mean parameters"),
        (HEAD + "[[stages]]\nname = 'a'\n", "unknown key 'stages'. Did you mean stage?"),
        ('[pipeline]\nname = "t"\ntimeout = 3\n' + stage("a"), "[pipeline]: unknown key 'timeout'"),
        (HEAD, "no stages"),
        (HEAD + "[[stage]]\nnotebook = 'n'\n", "[[stage]] number 1: key 'name' is missing"),
        (HEAD + "[[stage]]\nname = 'a'\n", "stage 'a': key 'notebook' is missing"),
        (HEAD + stage("a", seals="[]"), "key 'seals' is missing or empty"),
        (HEAD + stage("a", "view = true"), "a view seals nothing"),
        (HEAD + stage("A b"), "a stage name is lower-case"),
        (HEAD + stage("a") + stage("a", seals='["y"]'), "two stages are called 'a'"),
        (HEAD + stage("a") + stage("b"), "x@twin is sealed by stage 'a' and by stage 'b'"),
        (
            HEAD + stage("a", 'after = ["bb"]') + stage("b", seals='["y"]'),
            "after: unknown stage 'bb'. Did you mean b",
        ),
        (HEAD + stage("a", "parameters = { TARGET = nan }"), "parameter TARGET is nan"),
        (HEAD + stage("a", "parameters = { TARGET = [1.0, { x = -inf }] }"), "parameter TARGET is -inf"),
        (HEAD + stage("a", "parameters = { TARGET = 2026-01-02 }"), "parameter TARGET is a date"),
        (HEAD + stage("a", "parameters = { 'a-b' = 1 }"), "parameter 'a-b' is not a Python name"),
        (
            HEAD + stage("a", "parameters = { TARGTE = 'x' }"),
            "seals: unknown parameter 'TARGET'. Did you mean TARGTE?",
        ),
        (HEAD + stage("a", "after = 'b'"), "key 'after' is str, not a list"),
        (HEAD + stage("a", "inputs = [3]"), "key 'inputs' holds 3, not a name"),
        (HEAD + stage("a", "cell_timeout_s = 0"), "key 'cell_timeout_s' is 0, not a positive number"),
        (HEAD + stage("a", "cell_timeout_s = inf"), "not a positive number"),
        (HEAD + stage("a", "verdict = 'maybe'"), "verdict is 'maybe'"),
        (HEAD + stage("a", "serve = { fresh = true }"), "serve: key 'recipe' is missing"),
        (
            HEAD + stage("a", "serve = { recipe = 'r', node = 4 }"),
            "serve: unknown key 'node'. Did you mean nodes?",
        ),
        (HEAD + stage("a", "serve = { recipe = 'r', nodes = true }"), "key 'nodes' is True"),
        (HEAD + stage("a", 'inputs = ["x@twin"]'), "stages wait for each other: a needs a"),
        (
            HEAD + stage("a", 'after = ["b"]') + stage("b", 'after = ["a"]', seals='["y"]'),
            "a needs b, b needs a",
        ),
        ('[pipeline]\nname = "other"\n' + stage("a"), "name is 'other' but the file is t.toml"),
        ("name = ", "not valid TOML"),
        ("\ufeffname", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(PipelineError) as caught:
        load_pipeline(path)
    message = str(caught.value)
    assert said in message
    assert str(path) in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


def test_seals_and_inputs_make_the_order(tmp_path: Path) -> None:
    text = HEAD + stage("fit", 'inputs = ["x@twin"]', seals='["law@{TARGET}"]') + stage("sweep")
    pipeline = load_pipeline(write(tmp_path, text))
    assert [item.name for item in pipeline.stages] == ["sweep", "fit"]
    assert pipeline.needs(pipeline.stage("fit")) == ("sweep",)
    assert pipeline.root == tmp_path


def test_target_replaces_the_parameter_and_the_subjects(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, HEAD + stage("a")), target="http://router:30000")
    assert pipeline.stages[0].parameters["TARGET"] == "http://router:30000"
    assert pipeline.stages[0].seals == ("x@http://router:30000",)
    with pytest.raises(PipelineError, match="no stage has a parameter TARGET"):
        load_pipeline(write(tmp_path, HEAD + stage("a", "parameters = {}", seals='["y"]')), target="x")


def test_find_pipeline_looks_upward_and_knows_near_misses(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + stage("a"))
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_pipeline("t", below) == path
    with pytest.raises(PipelineError, match="unknown pipeline 'tt'. Did you mean t?"):
        find_pipeline("tt", below)
    with pytest.raises(PipelineError, match="no such pipeline file"):
        find_pipeline("nowhere.toml")


def test_a_stage_knows_its_neighbours(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, HEAD + stage("sweep")))
    with pytest.raises(PipelineError, match="unknown stage 'sweeep'. Did you mean sweep?"):
        pipeline.stage("sweeep")


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab@{}", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["recipe", "fresh"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value if item is not None)}]"
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if item is not None) + "}"
        )
    return repr(value) if isinstance(value, int) else "'" + str(value) + "'"


@given(st.dictionaries(st.sampled_from(STAGE_KEYS), _values.filter(lambda v: v is not None)))
def test_any_stage_table_loads_or_is_a_pipeline_error(
    tmp_path_factory: pytest.TempPathFactory, table: dict
) -> None:
    text = HEAD + "[[stage]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
    tomllib.loads(text)
    path = write(tmp_path_factory.getbasetemp(), text)
    try:
        pipeline = load_pipeline(path)
    except PipelineError as error:
        assert error.where
    else:
        assert pipeline.stages[0].seals or pipeline.stages[0].view


@pytest.mark.parametrize("name", ["report", "short"])
def test_a_shipped_pipeline_takes_one_target_for_all(name: str) -> None:
    """Stages that measure two platforms alike are one stage on a single serve, as the help's example asks."""
    pipeline = load_pipeline(name, target="http://router:30000", start=Path(__file__).parents[2])
    seals = [seal for stage in pipeline.stages for seal in stage.seals]
    assert len(seals) == len(set(seals)) and "needle-gate@http://router:30000" in seals
    names = {stage.name for stage in pipeline.stages}
    assert all(set(stage.after) <= names for stage in pipeline.stages)
