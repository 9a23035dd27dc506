"""Redaction at ingestion: what names a person's machine becomes a stable pseudonym before anything is stored.

URLs lose userinfo, query and fragment; host names and addresses become ``node-1``, ``node-2``...; home
folders become ``~``; key-like strings become ``[key]``. The map of pseudonyms stays in
``artifacts/.pseudonyms.json``, outside git. Loopback is kept: it names nobody.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from k3repro.store._files import locked, write_atomic

_URL = re.compile(
    r"\b([a-z][a-z0-9+.-]*://)((?:[^\s/?#\"'<>)\]}\[]*@)?(?:\[[0-9a-f:.]+\](?::\d+)?|[^\s/?#\"'<>)\]}\[]+))"
    r"([^\s?#\"'<>)\]}]*)([?#][^\s\"'<>)\]}]*)?",
    re.IGNORECASE,
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
# Global, unique local and link-local addresses; anything shorter is a time or a slice.
_IPV6 = re.compile(
    r"(?<![\w:.])(?:[23][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):[0-9a-f:]*[0-9a-f](?![\w:.])",
    re.IGNORECASE,
)
_HOST_PORT = re.compile(r"(?<=\bhost )([A-Za-z0-9][\w.-]*)(?=:\d)")
_HOME = re.compile(r"(?<![\w/])/(?:home|Users)/[^/\s\"':,;]+|(?<![\w/])/root(?=/)")
KEYS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bBearer\s+[A-Za-z0-9._~+/-]{16,}=*"
)
_SUSPICIOUS = re.compile(
    r"://|host |/home/|/Users/|/root/|\d\.\d|::|[0-9a-fA-F]:[0-9a-fA-F]"
    r"|sk-|hf_|gh[pousr]_|github_pat|glpat|AKIA|AIza|xox|eyJ|Bearer|PRIVATE KEY"
)
_PUBLIC = frozenset({"github.com", "huggingface.co", "doi.org", "arxiv.org"})
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class Redactor:
    """Redacts text and JSON-like values; a name keeps its pseudonym for as long as the map is kept."""

    def __init__(self, path: Path | None = None, nodes: Iterable[str] = ()) -> None:
        self.path = path
        self._map = _load(path) if path is not None else {}
        self._own = {socket.gethostname()} - _LOOPBACK_NAMES - {""}
        self._names = self._name_pattern()
        self.register(nodes)

    def register(self, nodes: Iterable[str]) -> None:
        """Make node names known, so that they are found in free text too."""
        for name in nodes:
            self._pseudonym(name)

    def text(self, text: str) -> str:
        """`text` with everything that names a machine, a home folder or a key replaced."""
        if _SUSPICIOUS.search(text):
            text = KEYS.sub("[key]", text)
            text = _URL.sub(self._url, text)
            text = _HOME.sub("~", text)
            text = _HOST_PORT.sub(lambda match: self._host(match.group()), text)
            text = _IPV4.sub(self._address, text)
            text = _IPV6.sub(self._address, text)
        return self._names.sub(lambda match: self._pseudonym(match.group()), text) if self._names else text

    def value(self, value: Any) -> Any:
        """A JSON-like value with every text redacted; values under key-like names are dropped."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(k)): "[key]" if _secret_name(str(k), v) else self.value(v)
                for k, v in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def _url(self, match: re.Match[str]) -> str:
        scheme, authority, path = match.group(1), match.group(2).rsplit("@", 1)[-1], match.group(3)
        host, _, port = authority.rpartition(":") if re.search(r":\d+$", authority) else (authority, "", "")
        return f"{scheme}{self._host(host)}{':' + port if port else ''}{path}"

    def _host(self, host: str) -> str:
        bare = host.strip("[]").lower()
        return (
            host
            if _loopback(bare) or bare in _PUBLIC or bare in self._map.values()
            else self._pseudonym(bare)
        )

    def _address(self, match: re.Match[str]) -> str:
        text = match.group()
        try:
            ipaddress.ip_address(text)
        except ValueError:
            return text
        return text if _loopback(text) else self._pseudonym(text)

    def _pseudonym(self, name: str) -> str:
        key = name.lower()
        if key in self._map.values() or _loopback(key):
            return name
        if key not in self._map:
            with self._shared():
                self._map.setdefault(key, f"node-{len(self._map) + 1}")
            self._names = self._name_pattern()
        return self._map[key]

    @contextlib.contextmanager
    def _shared(self) -> Iterator[None]:
        """Hold the map on disk while it changes: two processes must not give one pseudonym to two names."""
        if self.path is None:
            yield
            return
        with locked(self.path.with_suffix(".lock")):
            self._map |= _load(self.path)
            yield
            write_atomic(self.path, json.dumps(self._map, sort_keys=True, indent=1).encode())

    def _name_pattern(self) -> re.Pattern[str] | None:
        names = sorted((n for n in self._map.keys() | self._own if len(n) > 3), key=len, reverse=True)
        return (
            re.compile(r"(?<![\w.-])(?:" + "|".join(map(re.escape, names)) + r")(?![\w-])", re.IGNORECASE)
            if names
            else None
        )


def _load(path: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        return {str(name): str(pseudonym) for name, pseudonym in json.loads(path.read_bytes()).items()}
    return {}


def looks_secret(text: str) -> bool:
    """Whether a text holds something that looks like a key, a token or a private key."""
    return KEYS.search(text) is not None


def secrets_in(value: Any, where: str = "") -> Iterator[str]:
    """Where a JSON-like value holds a key-like string."""
    if isinstance(value, str) and looks_secret(value):
        yield where or "value"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets_in(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from secrets_in(item, f"{where}[{i}]")


def _secret_name(name: str, value: Any) -> bool:
    return (
        isinstance(value, str)
        and re.search(r"(?i)(api[_-]?key|secret|password|passwd|authorization|access[_-]?token)\Z", name)
        is not None
    )


def _loopback(name: str) -> bool:
    if name.lower() in _LOOPBACK_NAMES:
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
