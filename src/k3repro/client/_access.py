"""How a server is reached: keys, headers, certificates, proxies, and which endpoint it answers on.

Everything comes from the environment, so that the command line, notebooks and pipelines share it; none of
it is ever recorded in an artifact.
"""

from __future__ import annotations

import os
import ssl
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from k3repro.errors import UsageError

if TYPE_CHECKING:
    from k3repro.client._address import Address

__all__ = ["ENDPOINTS", "Access"]

ENDPOINTS = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
}
_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Access:
    """Keys and ways to a server.

    `key` becomes ``Authorization: Bearer KEY`` unless `headers` hold an Authorization of their own.
    `endpoint` is completions, chat, responses, or auto: the first of them that the server knows.
    """

    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str = ""
    insecure: bool = False
    endpoint: str = "auto"

    def __post_init__(self) -> None:
        if self.endpoint not in ("auto", *ENDPOINTS):
            fix = f"One of auto, {', '.join(ENDPOINTS)}."
            raise UsageError(f"no endpoint {self.endpoint!r}", where="--endpoint", fix=fix)
        for name, value in (*self.headers, ("K3REPRO_API_KEY", self.key)):
            if any(mark in name + value for mark in "\r\n\0") or not name.isascii():
                raise UsageError("a header holds a line break", where=name[:40], fix="One line a header.")

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> Access:
        """$K3REPRO_API_KEY, $K3REPRO_HEADERS (one ``Name: value`` a line), $K3REPRO_CA_FILE,
        $K3REPRO_INSECURE (1), $K3REPRO_ENDPOINT.

        Raises:
            UsageError: a header without a colon, an unknown endpoint.
        """
        lines = [line for line in environment.get("K3REPRO_HEADERS", "").splitlines() if line.strip()]
        return cls(
            environment.get("K3REPRO_API_KEY", "").strip(),
            tuple(_header(line) for line in lines),
            environment.get("K3REPRO_CA_FILE", ""),
            environment.get("K3REPRO_INSECURE", "") not in ("", "0"),
            environment.get("K3REPRO_ENDPOINT", "") or "auto",
        )

    @property
    def lines(self) -> str:
        """The headers as they stand in a request."""
        named = {name.lower() for name, _ in self.headers}
        bearer = (
            [("Authorization", f"Bearer {self.key}")] if self.key and "authorization" not in named else []
        )
        return "".join(f"{name}: {value}\r\n" for name, value in (*bearer, *self.headers))

    def tls(self) -> ssl.SSLContext:
        """The context for https. `ca_file` is trusted besides the system's ($SSL_CERT_FILE works as well).

        Raises:
            UsageError: `ca_file` does not exist or holds no certificate.
        """
        context = ssl.create_default_context()
        if self.ca_file:
            try:
                context.load_verify_locations(Path(self.ca_file).expanduser())
            except (OSError, ssl.SSLError) as error:
                raise UsageError(
                    f"no certificate: {error}", where=self.ca_file, fix="--ca-file FILE"
                ) from None
        if self.insecure:
            warnings.warn("certificates are not checked (--insecure): anybody may answer", stacklevel=2)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def proxy_of(address: Address) -> tuple[str, int] | None:
    """The proxy ($HTTP_PROXY, $HTTPS_PROXY, $NO_PROXY) before a server; this machine is reached directly.

    Raises:
        UsageError: a proxy that is no http:// address.
    """
    text = getproxies().get("https" if address.tls else "http", "")
    if not text or address.host in _HERE or proxy_bypass(address.host):
        return None
    parts = urlsplit(text if "//" in text else f"http://{text}")
    if parts.scheme != "http" or not parts.hostname:
        fix = "Unset $HTTPS_PROXY and $HTTP_PROXY, or name an http:// proxy; $NO_PROXY lists exceptions."
        raise UsageError(f"a {parts.scheme} proxy is not supported", where="proxy", fix=fix)
    return parts.hostname, parts.port or 3128


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"{name[:20]!r} is no header", where="--header", fix="Write 'Name: value'.")
    return name.strip(), value.strip()
