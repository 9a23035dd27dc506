"""Who the other side of a handoff is: read from the request id and body that the router made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Handoff", "Peer", "host_of_rank", "read_handoff"]

_REQUEST_ID = re.compile(r"___prefill_addr_(.*)___decode_addr_(.*)_[0-9a-f]{32}\Z", re.DOTALL)
_PARTS = {"host": re.compile(r"host:([^,]+)"), "handshake": re.compile(r"handshake:(\d+)"),
          "notify": re.compile(r"notify:(\d+)")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Peer:
    """A pool as its master registered it: host and base ports."""

    host: str
    handshake: int
    notify: int


@dataclass(frozen=True, slots=True)
class Handoff:
    """One request's handoff: `prefill` is True on the side that computes the context.

    `remote_rank` is the peer's lane (None: the router did not say), `params` the request's own
    ``kv_transfer_params``.
    """

    prefill: bool
    transfer_id: str
    peer: Peer | None
    remote_rank: int
    remote_tp: int
    params: Mapping[str, Any]


def _peer(address: str) -> Peer | None:
    found = {name: pattern.search(address) for name, pattern in _PARTS.items()}
    host, handshake, notify = found["host"], found["handshake"], found["notify"]
    if host is None or handshake is None or notify is None:
        return None
    return Peer(host[1], int(handshake[1]), int(notify[1]))


def read_handoff(request_id: str, params: Any) -> Handoff | None:
    """The handoff a request belongs to; None when it asks for none (a plain request)."""
    if not isinstance(params, dict):
        return None
    prefill = params.get("do_remote_decode") is True
    if not prefill and params.get("do_remote_prefill") is not True:
        return None
    addresses = _REQUEST_ID.match(request_id)
    peer = _peer(addresses[2 if prefill else 1]) if addresses else None
    return Handoff(
        prefill,
        str(params.get("transfer_id") or request_id),
        peer,
        _whole(params.get("remote_dp_rank"), 0),
        _whole(params.get("remote_tp_size"), 1),
        params,
    )


def _whole(value: Any, default: int) -> int:
    return value if type(value) is int and value >= 0 else default


def host_of_rank(rank: int, dp: int, hosts: tuple[str, ...], master: str) -> str | None:
    """Node of a peer's lane; None when only the list of its nodes would say (the documented defect).

    Ranks fill the nodes of a pool in order. Without the list only rank 0, on the master, has an address.
    """
    if hosts:
        return hosts[min(rank * len(hosts) // max(dp, 1), len(hosts) - 1)]
    return master if rank == 0 else None
