"""How a serve is reached and called: options of `probe` and `run`, and how a next command has them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from k3repro.client import ENDPOINTS

__all__ = ["carried", "reach", "reach_options"]

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--model", help="Name of the model, where the target does not tell it (a P/D router)."),
    click.option(
        "--name", "name_as", default="",
        help="What artifacts call the target [engine-version/model@hardware#mark]; never its address.",
    ),
    click.option("--hardware", default="", help="What the serve runs on, as you say it: mi300x, cpu."),
    click.option(
        "--tokenizer", default="", metavar="PATH",
        help="tokenizer.json that sizes prompts; default: the server's /tokenize, if any; or none.",
    ),
    click.option(
        "--slo", default="", metavar="LIMITS",
        help="Count goodput under these: ttft=2s,tpot=50ms (also itl, e2e, first_answer).",
    ),
    click.option(
        "--endpoint", type=click.Choice(["auto", *ENDPOINTS]),
        help="API to use; auto takes the first that answers.",
    ),
    click.option(
        "--header", multiple=True, metavar="'NAME: VALUE'",
        help="Sent with every request; repeat it. A bearer token comes from $K3REPRO_API_KEY.",
    ),
    click.option("--insecure", is_flag=True, help="Do not check the certificate of an https target."),
    click.option("--ca-file", metavar="FILE", help="Certificate to trust; $SSL_CERT_FILE works as well."),
)  # fmt: skip
_WORDS = {"model": "--model", "name_as": "--name", "hardware": "--hardware", "tokenizer": "--tokenizer",
          "endpoint": "--endpoint", "ca_file": "--ca-file", "slo": "--slo"}  # fmt: skip


def reach_options(command: F) -> F:
    """Add the options; the command gets them by name."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def reach(options: dict[str, Any]) -> None:
    """How the target is reached goes through the environment, so that nothing of it is a parameter."""
    headers = options.pop("header", ())
    if headers:
        os.environ["K3REPRO_HEADERS"] = "\n".join(headers)
    for name in ("ca_file", "endpoint"):
        if value := options.pop(name, None):
            os.environ[f"K3REPRO_{name.upper()}"] = str(value)
    if options.pop("insecure", False):
        os.environ["K3REPRO_INSECURE"] = "1"


def carried(target: str, options: Mapping[str, Any]) -> str:
    """``--target T`` and these options, as the next command has to have them; a header's value stays out."""
    words = ["--target", target]
    for name, option in _WORDS.items():
        words += [option, str(options[name])] if options.get(name) else []
    for header in options.get("header") or ():
        words += ["--header", f"{header.partition(':')[0]}: ..."]
    words += ["--insecure"] * bool(options.get("insecure"))
    return shlex.join(words)
