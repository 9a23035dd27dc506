"""What an engine prints while it comes up: every line from the launch and the block law, none made up."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from k3repro.capacity import BlockLaw, Engine, block_law, parse_version
from k3repro.errors import SpecError, UsageError
from k3repro.serve.lines import print_kv_lines
from k3repro.serve.startup import READY, connector_line, graph_line, moe_line
from k3repro.spec import Layout, Model, layout_for, load_model, models
from k3repro.twin.engine._connector import EngineDead
from k3repro.twin.engine._launch import RoleLaunch
from k3repro.twin.engine._log import Log

__all__ = ["Startup"]

_DEFAULT_MODEL = "kimi-k3"
_GIB = 2**30
_CODEGEN_LIMIT = 8192  # recipe: 8192 corrupts output, 16384 crashes code generation on gfx942


class Startup:
    """The lines of one process; the pool is `--kv-cache-memory-bytes`, else what the layout publishes."""

    def __init__(self, launch: RoleLaunch, platform: str, version: str, log: Log) -> None:
        self._launch, self._log, self.version = launch, log, version
        self.model = _model(launch)
        self._layout = layout_for(self.model.name, platform)
        self.max_model_len = launch.max_model_len or _known(self._layout, self.model)
        flags = launch.flags
        self.graph = _graph(launch)
        self.engine = Engine(
            version=parse_version(version),
            tp=launch.tp,
            dp=launch.dp,
            kv_dtype=flags.text("kv-cache-dtype", "auto"),
            prefix_caching=flags.values.get("enable-prefix-caching"),
            block_size=flags.number("block-size", 0) or None,
            in_flight_tokens=launch.batched_tokens,
        )
        self.law: BlockLaw = block_law(self.model, self.engine)
        self.pool = flags.number("kv-cache-memory-bytes", self._layout.kv_pool_bytes if self._layout else 0)
        if not self.pool:
            raise UsageError(
                f"the KV pool of {self.model.name} on {platform} is not published", where="vllm serve",
                fix="Give --kv-cache-memory-bytes.",
            )  # fmt: skip

    def engine_lines(self, engine_id: str | None) -> None:
        """Lines of every lane of this process.

        Raises:
            EngineDead: the pool does not hold one request, or the launch is known to kill the engine.
        """
        caches = self.engine.caches_prefixes
        for lane in self._launch.lanes:
            launch = self._launch
            line = graph_line(
                self.version, launch.flags.model, launch.tp, launch.dp, self.graph, prefix_caching=caches
            )
            self._log(line, lane=lane, place="core.py:93")
            self._log(
                moe_line(int4=_int4(launch)), lane=lane, level="WARNING" if _int4(launch) else "INFO",
                place="mxfp4.py:1",
            )  # fmt: skip
            self._checks(lane)
            if engine_id is not None and launch.transfer is not None:
                role = launch.transfer.role.removeprefix("kv_").upper()
                text = connector_line(f"{engine_id}_dp{lane}", role)
                self._log(text, lane=lane, place="moriio_connector.py:1")
            self._kv_lines(lane)

    def _kv_lines(self, lane: int) -> None:
        blocks = self.law.pool_blocks(self.pool)
        tokens = self.law.printed_tokens(blocks, self.max_model_len)
        concurrency = self.law.concurrency(blocks, self.max_model_len)
        for line in print_kv_lines(tokens, self.max_model_len, concurrency, version=self.engine.version):
            self._log(line, lane=lane, place="kv_cache_utils.py:1")

    def _checks(self, lane: int) -> None:
        if self._launch.batched_tokens > _CODEGEN_LIMIT:
            self.die(lane, "LLVM ERROR: Do not know how to expand this operator's operand!")
        if not self.law.starts(self.pool, self.max_model_len):
            need, have = self.law.bytes_needed(self.max_model_len) / _GIB, self.pool / _GIB
            self.die(
                lane,
                f"ValueError: To serve at least one request with the model's max seq len "
                f"({self.max_model_len}), {need:.2f} GiB KV cache is needed, which is larger than the "
                f"available KV cache memory ({have:.2f} GiB). Based on the available memory, the estimated "
                f"maximum model length is {self.law.longest_at_startup(self.pool)}.",
            )

    def die(self, lane: int, text: str) -> NoReturn:
        """Print the root cause and raise what an engine core that cannot start raises."""
        self._log(text, lane=lane, level="ERROR")
        raise EngineDead("Engine core initialization failed. See root cause above.")

    def ready_lines(self) -> None:
        """Lines of the API servers once everything is up."""
        launch = self._launch
        self._log(f"Starting vLLM API server on http://{launch.host}:{launch.port}", api=0,
                  place="launcher.py:1")  # fmt: skip
        for server in range(launch.api_servers):
            self._log(READY, api=server, place="on.py:1")


def _model(launch: RoleLaunch) -> Model:
    config = Path(launch.flags.model) / "config.json"
    if config.is_file():
        return load_model(launch.flags.model)
    known = launch.model in {model.name for model in models()}
    return load_model(launch.model if known else _DEFAULT_MODEL)


def _known(layout: Layout | None, model: Model) -> int:
    if layout is not None:
        return layout.max_model_len
    if model.max_positions is None:
        raise SpecError("the longest context of this model is unknown", fix="Give --max-model-len.")
    return int(model.max_positions)


def _graph(launch: RoleLaunch) -> str:
    document = launch.flags.document("compilation-config") or {}
    if launch.flags.switch("enforce-eager"):
        return "NONE"
    return str(document.get("cudagraph_mode", "FULL_AND_PIECEWISE"))


def _int4(launch: RoleLaunch) -> bool:
    document = launch.flags.document("quantization-config") or {}
    moe = document.get("moe")
    return isinstance(moe, dict) and str(moe.get("weight", "")).startswith("int4")
