"""The connector between two processes' halves: order, loss, expiry, restarts, the documented defects."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack
import pytest
from engine_roles import role_arguments, transfer_config
from hypothesis import given, settings
from hypothesis import strategies as st

from k3repro.errors import MachineError, MissingExtra
from k3repro.twin.engine import read_launch
from k3repro.twin.engine._connector import Connector, EngineDead, TransferFailed
from k3repro.twin.engine._log import log_to
from k3repro.twin.engine._peer import Peer, host_of_rank, read_handoff
from k3repro.twin.engine._ping import Pinger

P_HOST, D_HOST = "127.0.2.1", "127.0.2.3"
PORTS = itertools.count(21000, 64)
SCALE = 200.0


class Pair:
    """A prefill and a decode connector of two ranks each, on one node each."""

    def __init__(self, *, p_peers: bool = True, d_peers: bool = True, **extra: Any) -> None:
        self.lines: list[str] = []
        self.base = next(PORTS)
        # Nothing expires by accident on a busy machine; a test of expiry says so.
        ports = {"handshake_port": self.base, "notify_port": self.base + 32}
        self._extra = {**ports, "defer_timeout": "2000", **extra}
        self.p = self._make("prefill", P_HOST, [D_HOST] if p_peers else [])
        self.d = self._make("decode", D_HOST, [P_HOST] if d_peers else [])

    def _make(self, pool: str, host: str, peers: list[str]) -> Connector:
        config = transfer_config(pool, peers, **self._extra)
        launch = read_launch(
            role_arguments(pool, "master", host, config, dp=2, nodes=1), {"VLLM_HOST_IP": host}
        )
        assert launch.transfer is not None
        return Connector(launch, launch.transfer, SCALE, log_to(self.lines.append))

    @property
    def p_peer(self) -> Peer:
        return Peer(P_HOST, self.base, self.base + 32)

    @property
    def d_peer(self) -> Peer:
        return Peer(D_HOST, self.base, self.base + 32)

    def receive(self, transfer: str, lane: int = 0, rank: int = 0) -> Awaitable[str]:
        return self.d.receive(transfer, lane, self.p_peer, rank, 2, 2)

    def send(self, transfer: str, context: str, lane: int = 0, rank: int = 0) -> Awaitable[str]:
        return self.p.send(transfer, lane, context, self.d_peer, rank, 2, 2)

    def restart(self, pool: str) -> Connector:
        host = P_HOST if pool == "prefill" else D_HOST
        return self._make(pool, host, [D_HOST if pool == "prefill" else P_HOST])

    def said(self, words: str) -> int:
        return sum(words in line for line in self.lines)


def both(pair: Pair, conversation: Callable[[Pair], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        await pair.p.start()
        await pair.d.start()
        try:
            return await asyncio.wait_for(conversation(pair), 600)
        finally:
            await pair.p.close()
            await pair.d.close()

    return asyncio.run(run())


@pytest.mark.parametrize("first", ["send", "receive"])
def test_either_side_may_come_first(first: str) -> None:
    async def conversation(pair: Pair) -> tuple[str, str]:
        halves = {"send": lambda: pair.send("tx", "text", 1, 1), "receive": lambda: pair.receive("tx", 1, 1)}
        early = asyncio.ensure_future(halves.pop(first)())
        await asyncio.sleep(0.05)
        late = await halves.popitem()[1]()
        return (await early, late) if first == "send" else (late, await early)

    pair = Pair()
    assert both(pair, conversation) == ("completed", "text")
    assert pair.p.waiting == pair.d.waiting == 0


def test_many_handoffs_do_not_mix() -> None:
    async def conversation(pair: Pair) -> list[str]:
        ids = [f"tx{n}" for n in range(60)]
        got = [asyncio.ensure_future(pair.receive(name, n % 2, n % 2)) for n, name in enumerate(ids)]
        for n, name in reversed(list(enumerate(ids))):
            await pair.send(name, f"context of {name}", n % 2, n % 2)
        return list(await asyncio.gather(*got))

    assert both(Pair(), conversation) == [f"context of tx{n}" for n in range(60)]


def test_blocks_that_never_arrive_expire_with_the_documented_line_and_the_prefill_is_done() -> None:
    pair = Pair(defer_timeout="60")
    assert both(pair, lambda pair: pair.send("tx-7", "text")) == "expired"
    line = (
        "Deferred write task for request tx-7 expired after 60.0s (remote blocks never arrived), marking done"
    )
    assert pair.said(line) == 1 and pair.p.waiting == 0


def test_a_context_that_never_comes_fails_the_request_and_frees_it() -> None:
    pair = Pair(transfer_timeout="0.5")
    with pytest.raises(TransferFailed, match="timed out after 60s"):
        both(pair, lambda pair: pair.receive("tx"))
    assert pair.d.waiting == 0


def test_a_client_that_goes_away_frees_what_it_held() -> None:
    async def conversation(pair: Pair) -> str:
        task = asyncio.ensure_future(pair.receive("tx"))
        while not pair.p.waiting:  # until the prefill side knows where to write
            await asyncio.sleep(0.005)
        assert pair.d.waiting == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert pair.d.waiting == 0
        return await pair.send("tx", "too late")  # its blocks are known: written, and nobody reads it

    pair = Pair()
    assert both(pair, conversation) == "completed" and pair.p.waiting == 0


def test_a_prefill_process_that_dies_fails_the_waiting_request_at_once() -> None:
    async def conversation(pair: Pair) -> None:
        task = asyncio.ensure_future(pair.receive("tx"))
        await asyncio.sleep(0.1)
        await pair.p.close()
        await task

    with pytest.raises(TransferFailed, match="failed"):
        both(Pair(), conversation)


def test_a_rank_without_a_listener_kills_the_engine_that_waits_for_it() -> None:
    """`--kv-transfer-config` missing on one worker: its ranks bind no handshake listener."""

    async def conversation(pair: Pair) -> str:
        await pair.d.close()
        return await pair.send("tx", "text")

    with pytest.raises(EngineDead, match="Timed out waiting for write_ready_flags"):
        both(Pair(transfer_timeout="10"), conversation)


@pytest.mark.parametrize("forgetful", ["prefill", "decode"])
def test_without_the_list_of_peer_hosts_every_rank_but_the_first_decodes_without_context(
    forgetful: str,
) -> None:
    async def conversation(pair: Pair) -> list[str]:
        found = []
        for rank in (0, 1):
            # The rank that matters is the peer's, seen from the side that lost the list.
            lane, remote = (rank, 0) if forgetful == "prefill" else (0, rank)
            got = asyncio.ensure_future(pair.receive(f"tx{rank}", lane, remote))
            sent = asyncio.ensure_future(pair.send(f"tx{rank}", "text", remote, lane))
            found.append(await got)
            sent.cancel()
        return found

    pair = Pair(p_peers=forgetful != "prefill", d_peers=forgetful != "decode")
    assert both(pair, conversation) == ["text", ""]
    assert pair.said("RDMA transfer") == 0


@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_a_pool_restarted_alone_is_not_noticed_and_handoffs_stop(pool: str) -> None:
    async def conversation(pair: Pair) -> tuple[str, Any]:
        first = asyncio.ensure_future(pair.receive("one"))
        await pair.send("one", "text")
        old = pair.p if pool == "prefill" else pair.d
        await old.close()
        fresh = pair.restart(pool)
        await fresh.start()
        if pool == "prefill":
            pair.p = fresh
        else:
            pair.d = fresh
        second = asyncio.ensure_future(pair.receive("two"))
        sent = await pair.send("two", "text")
        return await first, (sent, (await asyncio.gather(second, return_exceptions=True))[0])

    pair = Pair(transfer_timeout="3", defer_timeout="200")
    first, (sent, second) = both(pair, conversation)
    assert first == "text" and isinstance(second, TransferFailed)
    assert sent == ("expired" if pool == "prefill" else "completed")


def test_read_mode_pulls_once() -> None:
    async def conversation(pair: Pair) -> str:
        place = await pair.p.hold("tx", 1, "text")
        got = await pair.d.pull("tx", 0, place["remote_host"], place["remote_port"])
        with pytest.raises(TransferFailed):
            await pair.d.pull("tx", 0, place["remote_host"], place["remote_port"])
        return got

    pair = Pair(transfer_timeout="20000")
    assert both(pair, conversation) == "text"
    assert pair.p.waiting == 0 and not pair.said("Releasing expired KV blocks")


def test_in_read_mode_what_is_not_pulled_expires() -> None:
    async def conversation(pair: Pair) -> None:
        await pair.p.hold("tx", 0, "text")
        assert pair.p.waiting == 1
        while pair.p.waiting:
            await asyncio.sleep(0.01)

    pair = Pair()
    both(pair, conversation)
    assert pair.said("Releasing expired KV blocks for request tx") == 1


def test_a_port_that_is_taken_names_itself() -> None:
    async def conversation(pair: Pair) -> None:
        await pair.restart("prefill").start()

    pair = Pair()
    with pytest.raises(MachineError, match=str(pair.base)):
        both(pair, conversation)


@given(st.binary(max_size=40), st.booleans())
@settings(max_examples=25)
def test_strangers_at_a_port_harm_nobody(noise: bytes, framed: bool) -> None:
    async def conversation(pair: Pair) -> str:
        for port in (pair.base, pair.base + 32):
            _, writer = await asyncio.open_connection(P_HOST, port)
            writer.write(len(noise).to_bytes(4, "big") + noise if framed else noise)
            await writer.drain()
            writer.close()
        got = asyncio.ensure_future(pair.receive("tx"))
        await pair.send("tx", "text")
        return await got

    assert both(Pair(), conversation) == "text"


@pytest.mark.parametrize(
    "message", [5, {}, {"call": 1}, {"call": 1, "op": "blocks", "body": {}}, {"reply": 9}]
)
def test_messages_that_make_no_sense_are_answered_or_end_the_connection(message: Any) -> None:
    async def conversation(pair: Pair) -> bytes:
        data = msgpack.packb(message)
        reader, writer = await asyncio.open_connection(P_HOST, pair.base)
        writer.write(len(data).to_bytes(4, "big") + data)
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 600)
        got = asyncio.ensure_future(pair.receive("tx"))
        await pair.send("tx", "text")
        writer.close()
        return (await got).encode()

    assert both(Pair(), conversation) == b"text"


@pytest.mark.parametrize("missing", ["zmq", "msgpack"])
def test_a_missing_extra_says_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    config = transfer_config("decode", [], 36367)
    launch = read_launch(role_arguments("decode", "master", D_HOST, config), {"VLLM_HOST_IP": D_HOST})
    with pytest.raises(MissingExtra, match=r"pip install 'k3repro\[cluster\]'"):
        Pinger(launch, 2.0)


# ---- whom a request names


def request_id(prefill: str, decode: str) -> str:
    return f"___prefill_addr_{prefill}___decode_addr_{decode}_{'0' * 32}"


@given(st.text("abc.:,_", max_size=6), st.integers(1, 65535), st.integers(1, 65535))
def test_the_peer_is_read_from_the_request_id(noise: str, handshake: int, notify: int) -> None:
    there = f"host:10.0.0.9,handshake:{handshake},notify:{notify}"
    params = {"do_remote_prefill": True, "transfer_id": "tx", "remote_dp_rank": 3, "remote_tp_size": 2}
    found = read_handoff(request_id(there, noise), params)
    assert found is not None and found.peer == Peer("10.0.0.9", handshake, notify)
    assert (found.prefill, found.transfer_id, found.remote_rank, found.remote_tp) == (False, "tx", 3, 2)


@given(
    st.text(max_size=80),
    st.none()
    | st.integers()
    | st.dictionaries(st.sampled_from(["do_remote_decode", "remote_dp_rank"]), st.booleans()),
)
def test_any_request_id_and_any_parameters_are_survived(text: str, params: Any) -> None:
    found = read_handoff(text, params)
    assert found is None or (found.prefill and found.remote_rank == 0)


def test_hosts_of_ranks() -> None:
    assert [host_of_rank(rank, 8, ("a", "b"), "m") for rank in (0, 3, 4, 7, 9)] == ["a", "a", "b", "b", "b"]
    assert [host_of_rank(rank, 8, (), "m") for rank in (0, 1, 7)] == ["m", None, None]
