"""`k3repro doctor`: is the cluster fit for a bring-up? Reads, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.table import Table

from k3repro.bringup import Doctor, DoctorCell, load_cluster, require_extra
from k3repro.bringup import doctor as examine_all
from k3repro.cli.bringup import read_plan
from k3repro.cli.tables import printer
from k3repro.errors import FindingError


@click.command()
@click.option(
    "--cluster", required=True, metavar="FILE", help="A cluster file, or a name in pipelines/clusters."
)
@click.option("--recipe", default=None, help="Recipe name or file. Default: the cluster's.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="As for `bringup plan`; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print every cell as JSON.")
def doctor(cluster: str, recipe: str | None, settings: tuple[str, ...], as_json: bool) -> None:
    """Check all nodes at once: what would go wrong, and a fix for each finding.

    Nodes over ssh need an extra: pip install 'k3repro[cluster]'.

    Exits with code 1 when a check is red.

    \b
    Examples:
      k3repro doctor --cluster mi325x-thor2
      k3repro doctor --cluster my.toml --set ports.http=20105 --json
    """
    loaded = load_cluster(cluster)
    require_extra(loaded)
    report = examine_all(read_plan(cluster, recipe, settings))
    if as_json:
        from k3repro.cli import emit

        emit(report.as_dict())
    else:
        _show(report, [node.host for node in loaded.nodes])
    red = [cell for cell in report.cells if cell.state == "bad"]
    if red and as_json:
        click.get_current_context().exit(FindingError.exit_code)  # one JSON document, not two
    if red:
        checks = ", ".join(dict.fromkeys(cell.check for cell in red))
        raise FindingError(f"{len(red)} red cells: {checks}", where=loaded.name, fix="The fixes stand above.")


_STYLE = {"ok": "green", "bad": "bold red", "unknown": "yellow", "n/a": "dim"}


def _show(report: Doctor, hosts: Sequence[str]) -> None:
    """The table, then one line per finding; a state is a word, never a colour alone."""
    console = printer()
    table = Table("check", *hosts)
    for name in dict.fromkeys(cell.check for cell in report.cells):
        row = {cell.node: cell for cell in report.cells if cell.check == name}
        table.add_row(name, *(_cell(row.get(host)) for host in hosts))
    console.print(table)
    for cell in report.cells:
        if cell.fix and cell.state in {"bad", "unknown"}:
            console.print(f"{cell.state}: {cell.check} on {cell.node}: {cell.seen}. {cell.fix}", markup=False)
    console.print(f"{len(report.cells)} checks on {len(hosts)} nodes in {report.seconds:.1f} s", markup=False)


def _cell(cell: DoctorCell | None) -> str:
    if cell is None:
        return ""
    seen = cell.seen if len(cell.seen) <= 28 else cell.seen[:27] + "…"
    return f"[{_STYLE[cell.state]}]{cell.state}[/] {seen.replace('[', '(')}"
