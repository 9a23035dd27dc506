"""One engine process of the recipe: which role it plays, which lanes it owns, where it listens and whom it
reaches. Read from the command line of `vllm serve` and the environment; nothing is started here.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from k3repro.errors import UsageError
from k3repro.twin.engine._flags import Flags, read_flags

__all__ = ["RoleLaunch", "Transfer", "read_launch"]

_WHERE = "vllm serve"
_ROLES = ("kv_producer", "kv_consumer", "kv_both")
_CONNECTOR = "MoRIIOConnector"


@dataclass(frozen=True, slots=True)
class Transfer:
    """`--kv-transfer-config`; ports are bases, each rank of the pool has its own above them.

    `pod_hosts` are the nodes of the other pool in rank order; empty when the key is missing, and then only
    rank 0 of that pool can be reached. Timeouts are seconds of the twin's clock.
    """

    role: str
    proxy_ip: str
    ping_port: int
    http_port: int
    handshake_port: int = 6301
    notify_port: int = 61005
    pod_hosts: tuple[str, ...] = ()
    host: str = ""
    read: bool = False
    transfer_timeout_s: float = 30.0
    defer_timeout_s: float = 60.0

    @property
    def wait_s(self) -> float:
        """How long decode holds a request whose context has not come: prompts may queue that long."""
        return 120 * self.transfer_timeout_s

    @property
    def kind(self) -> str:
        """The word of a discovery ping: P or D."""
        return "P" if self.role == "kv_producer" else "D"


@dataclass(frozen=True, slots=True)
class RoleLaunch:
    """One process: `lanes` are the data-parallel ranks it owns of `dp` in the pool."""

    flags: Flags
    model: str
    host: str
    port: int
    tp: int
    dp: int
    lanes: range
    headless: bool
    pool_address: str
    rpc_port: int
    api_servers: int
    max_model_len: int | None
    max_num_seqs: int
    batched_tokens: int
    transfer: Transfer | None

    @property
    def remote_lanes(self) -> int:
        """Lanes of the pool that headless workers own."""
        return 0 if self.headless else self.dp - len(self.lanes)

    @property
    def role(self) -> str:
        """The recipe's name of this role."""
        if self.transfer is None:
            return "worker" if self.headless else "master"
        pool = "prefill" if self.transfer.kind == "P" else "decode"
        return f"{pool}_worker" if self.headless else f"{pool}_master"


def read_launch(arguments: Sequence[str], environment: Mapping[str, str]) -> RoleLaunch:
    """The launch that ``vllm serve ARGUMENTS`` asks for.

    Raises:
        UsageError: an option vLLM does not have, or options that cannot go together.
    """
    flags = read_flags(arguments)
    if not flags.model:
        raise UsageError(
            "no model", where=_WHERE, fix="For example: serve /model --served-model-name kimi-k3"
        )
    dp = flags.number("data-parallel-size", 1, least=1)
    local = flags.number("data-parallel-size-local", dp, least=1)
    start = flags.number("data-parallel-start-rank", 0)
    headless = flags.switch("headless")
    if start + local > dp:
        raise UsageError(
            f"ranks {start} to {start + local - 1} do not fit in --data-parallel-size {dp}", where=_WHERE
        )
    if headless and flags.number("api-server-count", 0) > 0:
        raise UsageError("--api-server-count cannot be used with --headless", where=_WHERE)
    if headless and not start:
        raise UsageError(
            "a headless engine owns rank 0, so nothing would serve the pool", where=_WHERE,
            fix="Give --data-parallel-start-rank.",
        )  # fmt: skip
    address = flags.text("data-parallel-address", "127.0.0.1")
    host = environment.get("VLLM_HOST_IP") or _own_address(address)
    tp = flags.number("tensor-parallel-size", 1, least=1)
    return RoleLaunch(
        flags=flags,
        model=flags.text("served-model-name", flags.model),
        host=flags.text("host", host),
        port=flags.number("port", 8000),
        tp=tp,
        dp=dp,
        lanes=range(start, start + local),
        headless=headless,
        pool_address=address,
        rpc_port=flags.number("data-parallel-rpc-port", 29550),
        api_servers=flags.number("api-server-count", dp, least=1),
        max_model_len=flags.number("max-model-len", 0, least=1) or None,
        max_num_seqs=flags.number("max-num-seqs", 256, least=1),
        batched_tokens=flags.number("max-num-batched-tokens", 8192, least=1),
        transfer=_transfer(flags.document("kv-transfer-config"), host),
    )


def _own_address(towards: str) -> str:
    """The address this machine shows to `towards`: vLLM's own way when VLLM_HOST_IP is not set."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((towards, 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _transfer(document: dict[str, Any] | None, host: str) -> Transfer | None:
    if document is None:
        return None
    connector, role = document.get("kv_connector"), document.get("kv_role")
    if connector != _CONNECTOR:
        raise UsageError(
            f"Unsupported connector type: {connector}", where="--kv-transfer-config",
            fix=f"The twin plays {_CONNECTOR}.",
        )  # fmt: skip
    if role not in _ROLES:
        raise UsageError(
            f"kv_role is {role!r}", where="--kv-transfer-config", fix=f"One of {', '.join(_ROLES)}."
        )
    extra = document.get("kv_connector_extra_config") or {}
    if not isinstance(extra, dict):
        raise UsageError("kv_connector_extra_config is not an object", where="--kv-transfer-config")
    hosts = [part.strip() for part in str(extra.get("moriio_pod_hosts", "")).split(",")]
    return Transfer(
        role=role,
        proxy_ip=str(extra.get("proxy_ip", "")),
        ping_port=_port(extra, "proxy_ping_port", 0),
        http_port=_port(extra, "http_port", 8000),
        handshake_port=_port(extra, "handshake_port", 6301),
        notify_port=_port(extra, "notify_port", 61005),
        pod_hosts=tuple(part for part in hosts if part),
        host=str(extra.get("host_ip") or host),
        read=str(extra.get("read_mode", "false")).lower() in ("true", "1"),
        transfer_timeout_s=_seconds(extra, "transfer_timeout", 30.0),
        defer_timeout_s=_seconds(extra, "defer_timeout", 60.0),
    )


def _port(extra: Mapping[str, Any], name: str, default: int) -> int:
    text = str(extra.get(name, default))
    if not text.isdigit() or int(text) > 65535:
        raise UsageError(f"{name} is {text!r}, not a port", where="--kv-transfer-config")
    return int(text)


def _seconds(extra: Mapping[str, Any], name: str, default: float) -> float:
    try:
        value = float(extra.get(name, default))
    except (TypeError, ValueError):
        value = -1.0
    if not 0 < value < 1e9:
        raise UsageError(f"{name} is {extra.get(name)!r}, not seconds", where="--kv-transfer-config")
    return value
