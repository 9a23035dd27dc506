"""Target strings: ``twin:PLATFORM[?setting=value&...]`` and ``http[s]://host:port[/prefix]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from k3repro.errors import UsageError

__all__ = ["Address", "TwinAddress", "parse_target"]

_BARE = re.compile(r"[A-Za-z0-9.-]+:\d+(?:/\S*)?")
_ENDPOINT = re.compile(r"(/v1)?(/chat/completions|/completions|/responses|/models)?$")
_EXAMPLES = "for example twin:mi325x or http://127.0.0.1:30000"


@dataclass(frozen=True, slots=True)
class Address:
    """Where an HTTP server is; `prefix` stands before every path."""

    host: str
    port: int
    tls: bool
    prefix: str
    authority: str

    @property
    def where(self) -> str:
        """The address without user information and query: for messages, never for artifacts."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"


@dataclass(frozen=True, slots=True)
class TwinAddress:
    """A simulated platform and its settings."""

    platform: str
    settings: dict[str, str]

    @property
    def where(self) -> str:
        """The target as messages and artifacts name it, with the settings that differ, sorted."""
        kept = sorted((name, value) for name, value in self.settings.items() if name != "seed")
        return f"twin:{self.platform}" + ("?" + "&".join(f"{n}={v}" for n, v in kept) if kept else "")


def parse_target(text: str) -> Address | TwinAddress:
    """The address in `text`; UsageError otherwise."""
    if text.startswith("twin:"):
        name, _, query = text[5:].partition("?")
        try:
            settings = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
        except ValueError:
            raise UsageError(
                f"{query!r} is not setting=value&setting=value",
                where="target",
                fix="twin:mi300x?max_num_seqs=32",
            ) from None
        return TwinAddress(name, dict(settings))
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{error}", where="target", fix=_EXAMPLES) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        bare = _BARE.fullmatch(text)
        fix = f"Did you mean http://{text}?" if bare else _EXAMPLES
        raise UsageError(f"{text.partition('?')[0]!r} is not a target", where="target", fix=fix)
    tls = parts.scheme == "https"
    host = parts.hostname
    shown = f"[{host}]" if ":" in host else host
    authority = shown if port is None else f"{shown}:{port}"
    prefix = _ENDPOINT.sub("", parts.path.rstrip("/"))
    return Address(host, port or (443 if tls else 80), tls, prefix, authority)
