"""What exists is documented: commands and options in --help, pipeline keys and errors in docs/."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from k3repro import errors, pipeline
from k3repro.cli import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"
PLANNED = {
    name for name, (where, _) in COMMANDS.items() if importlib.util.find_spec(where.partition(":")[0]) is None
}


def commands() -> Iterator[tuple[str, click.Command]]:
    for name, (where, _) in sorted(COMMANDS.items()):
        if name not in PLANNED:
            module, _, attribute = where.partition(":")
            yield from _below(name, getattr(importlib.import_module(module), attribute))


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for child in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), child)
            assert found is not None
            yield from _below(f"{name} {child}", found)


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_commands_say_what_they_do(name: str) -> None:
    command = ALL[name]
    assert command.help, f"{name} has no help"
    if isinstance(command, click.Group):
        return
    parent = ALL.get(name.rpartition(" ")[0])
    texts = [_help(name, command), _help("", parent) if parent else ""]
    assert any(f"k3repro {name}" in text for text in texts), f"no help shows an example of k3repro {name}"


def _help(name: str, command: click.Command) -> str:
    """The help without its usage line, which always shows the command."""
    return command.get_help(click.Context(command, info_name=name)).partition("\n")[2]


@pytest.mark.parametrize("name", ALL)
def test_options_say_what_they_do(name: str) -> None:
    command = ALL[name]
    options = [item for item in command.params if isinstance(item, click.Option) and not item.hidden]
    silent = [option.opts[-1] for option in options if not option.help]
    assert not silent, f"{name}: no help for {', '.join(silent)}"
    if not isinstance(command, click.Group):
        assert any("--json" in option.opts for option in options), f"{name} has no --json"


def test_every_pipeline_key_is_documented() -> None:
    text = (DOCS / "pipelines.md").read_text()
    keys = {*pipeline.PIPELINE_KEYS, *pipeline.STAGE_KEYS, *pipeline.SERVE_KEYS}
    assert not [key for key in sorted(keys) if f"`{key}`" not in text]


def test_every_error_is_documented_with_its_exit_code_and_sentence() -> None:
    text = (DOCS / "errors.md").read_text()
    for name in errors.__all__:
        error = getattr(errors, name)
        assert f"| `{name}` | {error.exit_code} | {error.__doc__.splitlines()[0]} |" in text
    assert text.count("\n| `") == len(errors.__all__)


def test_the_pipeline_in_the_docs_loads(tmp_path: Path) -> None:
    example = (DOCS / "pipelines.md").read_text().split("```toml\n")[1].split("```")[0]
    path = tmp_path / "report.toml"
    path.write_text(example)
    loaded = pipeline.load_pipeline(path)
    assert [stage.name for stage in loaded.stages] == ["osl-sweep-mi325x", "wall-law-mi325x"]
