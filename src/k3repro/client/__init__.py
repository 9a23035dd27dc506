"""The client: streaming completions over a byte transport, in virtual or wall time, one outcome a request."""

from k3repro.client._access import ENDPOINTS, Access
from k3repro.client._address import Address, TwinAddress, parse_target
from k3repro.client._advice import advice
from k3repro.client._answer import AnswerReader
from k3repro.client._evidence import TWIN_MARK, evidence_of, twin_evidence
from k3repro.client._exchange import Exchange, Handle, Receiver, Transport
from k3repro.client._load import WaveLoad, wave_load
from k3repro.client._model import Outcome, Request, RequestRecord
from k3repro.client._place import place_mark
from k3repro.client._selftest import CLIENT_SHARE_LIMIT, SelfTest, selftest, zero_server
from k3repro.client._table import REQUESTS_TABLE
from k3repro.client._target import Target, fetch_url, open_target, wave_at
from k3repro.client._wave import run_wave

__all__ = [
    "CLIENT_SHARE_LIMIT",
    "ENDPOINTS",
    "REQUESTS_TABLE",
    "TWIN_MARK",
    "Access",
    "Address",
    "AnswerReader",
    "Exchange",
    "Handle",
    "Outcome",
    "Receiver",
    "Request",
    "RequestRecord",
    "SelfTest",
    "Target",
    "Transport",
    "TwinAddress",
    "WaveLoad",
    "advice",
    "evidence_of",
    "fetch_url",
    "open_target",
    "parse_target",
    "place_mark",
    "run_wave",
    "selftest",
    "twin_evidence",
    "wave_at",
    "wave_load",
    "zero_server",
]
