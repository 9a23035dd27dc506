"""`k3repro selftest`: does the instrument itself work here, and how fast."""

from __future__ import annotations

import click

from k3repro.cli import emit


@click.group()
def selftest() -> None:
    """Verify the instrument before measuring a platform."""


@selftest.command()
@click.option(
    "--requests", default=2000, show_default=True, type=click.IntRange(64), help="Requests per repeat."
)
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="Interleaved repeats.")
@click.option(
    "--concurrency", default=64, show_default=True, type=click.IntRange(1), help="In flight at once."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def client(requests: int, repeats: int, concurrency: int, as_json: bool) -> None:
    """Measure the client against a zero-delay server in another process.

    \b
    Examples:
      k3repro selftest client
      k3repro selftest client --concurrency 512 --json
    """
    from k3repro.client import selftest as measure

    result = measure(requests=requests, repeats=repeats, concurrency=concurrency)
    if as_json:
        emit(result.as_dict())
        return
    rows = [
        ("rate, requests/s", f"{result.rate_per_s:,.0f}"),
        ("bare socket client, requests/s", f"{result.bare_rate_per_s:,.0f}"),
        ("ratio", f"{result.ratio:.2f}"),
        ("in flight, requested", f"{result.concurrency}"),
        ("in flight, achieved", f"{result.achieved:.1f}"),
        (f"time to first token at {result.ttft_concurrency}, ms", f"{result.ttft_s * 1e3:.2f}"),
        ("of which added by the client, ms", f"{result.added_ttft_s * 1e3:.2f}"),
        ("a rung is invalid above a client share of", f"{result.share_limit:.0%}"),
    ]
    for name, value in rows:
        click.echo(f"{name:44}{value:>12}")
