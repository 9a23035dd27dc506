"""Grammar of what engines print while they come up or die, apart from the KV lines: parse and print.

Wording from public engine sources and the recipe; a line of another wording is not an error, it is unmatched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["FATAL", "READY", "StartupFacts", "connector_line", "graph_line", "moe_line", "parse_startup"]

READY = "Application startup complete."
_RANK = re.compile(r"\(EngineCore(?:_DP|_)?(\d+)?\b[^)]*\)")
_MOE_INT4 = "Requantizing Kimi-K3 MXFP4 experts to groupwise int4 for gfx942..."
_MOE_MXFP4 = "Using AITER_MXFP4_BF16 for Kimi-K3 SiTU MXFP4 MoE."
_CONNECTOR = re.compile(r"Initialized MoRIIO Connector,engine_id:\s*([^,\s]+),\s*role:\s*(\w+)")
_GRAPH = re.compile(r"'cudagraph_mode': <CUDAGraphMode\.(\w+)")
_GRAPH_VALUES = {"NONE": "0", "PIECEWISE": "1", "FULL": "2", "FULL_DECODE_ONLY": "(2, 0)",
                 "FULL_AND_PIECEWISE": "(2, 1)"}  # fmt: skip

FATAL: dict[str, str] = {
    "engine-init": "Engine core initialization failed",
    "engine-start": "EngineCore failed to start",
    "engine-dead": "EngineDeadError",
    "write-ready": "Timed out waiting for write_ready_flags",
    "front-end": "Did not receive response from front-end process within",
    "memory": "torch.OutOfMemoryError",
    "free-memory": "is less than desired GPU memory utilization",
    "kv-too-small": "KV cache is needed, which is larger than the available KV cache memory",
    "fabric": "no transport available for peer",
    "nccl": "RuntimeError: NCCL error",
    "hip": "[FATAL ERROR]: HIP failure",
    "codegen": "LLVM ERROR: Do not know how to expand this operator's operand!",
    "heap": "Out of heap memory! Requested:",
    "memory-region": "RegisterRdmaMemoryRegion failed",
    "verbs-abi": "IBVERBS_PRIVATE_57 not found",
    "resources": "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
    "slots-above-state": "exceeds available Mamba cache blocks",
    "mounted-folder": "OCI runtime create failed",
    "fp8-prefill-query": "fp8 KV cache requires an fp8 prefill query",
    "prefix-hit": "SSM can only have one local block",
    "hybrid-manager": "does not support HMA but HMA is enabled",
    "unlike-caches": "failed to convert the KV cache specs to one unified type",
    "handshake": "NIXL transfer failure: handshake_failed",
}
"""Names of failures and the text that gives each away in an engine's log."""


@dataclass(slots=True)
class StartupFacts:
    """What a log says besides its KV lines. `ranks` are the data-parallel ranks that spoke."""

    moe: str | None = None
    graph: str | None = None
    connectors: dict[str, str] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    ready: int = 0
    fatal: list[tuple[int, str, str]] = field(default_factory=list)
    unmatched: int = 0


def moe_line(*, int4: bool) -> str:
    """The line that names the expert path on gfx942."""
    return _MOE_INT4 if int4 else _MOE_MXFP4


def connector_line(engine_id: str, role: str) -> str:
    """The line of one rank whose connector is up."""
    return f"Initialized MoRIIO Connector,engine_id:{engine_id},role: {role}"


def graph_line(version: str, model: str, tp: int, dp: int, graph: str, *, prefix_caching: bool) -> str:
    """The configuration line, shortened to what is parsed: layout and graph mode."""
    mode = f"<CUDAGraphMode.{graph}: {_GRAPH_VALUES.get(graph, '0')}>"
    return (
        f"Initializing a V1 LLM engine (v{version}) with config: model={model!r}, tensor_parallel_size={tp}, "
        f"data_parallel_size={dp}, enable_prefix_caching={prefix_caching}, "
        f"compilation_config={{'cudagraph_mode': {mode}}}"
    )


def parse_startup(lines: Iterable[str]) -> StartupFacts:
    """Read a log; `fatal` holds (line number, name, line) in order, so the first error comes first."""
    facts = StartupFacts()
    for number, line in enumerate(lines, start=1):
        rank = _RANK.search(line)
        if rank and rank[1]:
            facts.ranks.add(int(rank[1]))
        if not _read(facts, line, number) and line.strip():
            facts.unmatched += 1
    return facts


def _read(facts: StartupFacts, line: str, number: int) -> bool:
    for name, text in FATAL.items():
        if text in line:
            facts.fatal.append((number, name, line.strip()))
            return True
    if connector := _CONNECTOR.search(line):
        facts.connectors[connector[1]] = connector[2]
    elif graph := _GRAPH.search(line):
        facts.graph = graph[1]
    elif _MOE_INT4 in line or _MOE_MXFP4 in line:
        facts.moe = "int4" if _MOE_INT4 in line else "mxfp4"
    elif READY in line:
        facts.ready += 1
    else:
        return " KV cache size: " in line or "Maximum concurrency for " in line
    return True
