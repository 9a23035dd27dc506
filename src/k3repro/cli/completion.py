"""`k3repro completion SHELL`: what a shell has to read to complete commands, options and their values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from k3repro.cli import emit, root

_WHERE = {
    "bash": 'eval "$(k3repro completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(k3repro completion zsh)"   # in ~/.zshrc',
    "fish": "k3repro completion fish > ~/.config/fish/completions/k3repro.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_WHERE)))
@click.option("--json", "as_json", is_flag=True, help="Print the script as JSON.")
def completion(shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      eval "$(k3repro completion bash)"
      k3repro completion fish > ~/.config/fish/completions/k3repro.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    text = found(root, {}, "k3repro", "_K3REPRO_COMPLETE").source()
    emit({"shell": shell, "use": _WHERE[shell], "script": text}) if as_json else click.echo(text)
