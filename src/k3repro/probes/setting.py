"""What is known of a serve's capacity before anything is sent: engine, pool, slots, and what a rung will
cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from k3repro.capacity import Engine, engine_of, n_max, token_bytes
from k3repro.client import TwinAddress, parse_target, place_mark
from k3repro.errors import UsageError
from k3repro.probes.plan import Rung
from k3repro.registry import load
from k3repro.spec import Layout, Model, layout_for, load_model
from k3repro.store import Artifact, Store


@dataclass(frozen=True, slots=True)
class Setting:
    """Model, engine and pool (bytes per GPU) of a serve, and where that knowledge comes from."""

    model: Model
    engine: Engine
    pool_bytes: int
    max_num_seqs: int
    max_model_len: int
    platform: str
    source: str

    @property
    def slots(self) -> int:
        """In-flight places over all DP ranks."""
        return self.max_num_seqs * self.engine.dp

    def token_bytes(self) -> int:
        """Cache bytes of a token on one rank."""
        return token_bytes(self.model, self.engine)

    def limits(self, context: int) -> Any:
        """`capacity.n_max` at `context`: block law, pool law, slots, and which binds."""
        return n_max(
            self.model, self.engine, self.pool_bytes, context,
            max_num_seqs=self.max_num_seqs, max_model_len=self.max_model_len,
        )  # fmt: skip


def setting_of(
    target: str, *, platform: str = "", pool_bytes: int = 0, max_num_seqs: int = 0
) -> Setting | None:
    """The setting of a target; None when nobody says which platform stands behind a URL.

    The twin knows its own. A URL takes the published layout of `platform`, with `pool_bytes` and
    `max_num_seqs` put in its place where they are given.

    Raises:
        UsageError: no published layout of this platform.
    """
    address = parse_target(target) if target else None
    if isinstance(address, TwinAddress):
        found = _of_twin(address)
    elif platform:
        layout = layout_for("kimi-k3", platform)
        if layout is None:
            raise UsageError(f"no published layout on {platform!r}", fix="Give mi300x or mi325x.")
        found = _of_layout(layout, layout.prefix_caching)
    else:
        return None
    return replace(
        found, pool_bytes=pool_bytes or found.pool_bytes, max_num_seqs=max_num_seqs or found.max_num_seqs
    )


def _of_twin(address: TwinAddress) -> Setting:
    twin = load("k3repro.targets", "twin")
    settings = {name: value for name, value in address.settings.items() if name != "seed"}
    simulated = twin.platform(address.platform).with_overrides(settings)
    model, engine = simulated.described()
    return Setting(
        model, engine, simulated.kv_pool_bytes, simulated.max_num_seqs, simulated.max_model_len,
        simulated.spec_platform, f"settings of {address.where}",
    )  # fmt: skip


def _of_layout(layout: Layout, prefix_caching: bool) -> Setting:
    model = load_model(layout.model)
    engine = engine_of(layout, prefix_caching=prefix_caching)
    return Setting(
        model, engine, layout.kv_pool_bytes, layout.max_num_seqs, layout.max_model_len, layout.platform,
        f"published layout {layout.name}",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds: of a wave's floor, of a step alone and per further sequence, of prefill per step and per
    token.

    Zeros where nobody knows; then the minutes are a lower bound and `partial` says so.
    """

    floor_s: float
    step_s: float
    sequence_s: float
    prefill_step_s: float
    prefill_token_s: float
    prefill_step_tokens: int
    slots: int
    partial: bool
    source: str

    def seconds(self, rung: Rung) -> float:
        """Rough wall-clock of a rung: all prefill one after the other, then decode in rounds of what fits."""
        running = min(rung.concurrency, rung.requests, self.slots or rung.concurrency)
        rounds = math.ceil(rung.requests / running)
        step = self.step_s + self.sequence_s * (running - 1)
        prefill = self.prefill_s(rung.prompt_tokens * rung.requests)
        return prefill + rounds * (self.floor_s + step * rung.output_tokens)

    def prefill_s(self, tokens: int) -> float:
        """Seconds of prefill, one request after the other."""
        steps = math.ceil(tokens / self.prefill_step_tokens) if self.prefill_step_tokens else 0
        return steps * self.prefill_step_s + tokens * self.prefill_token_s

    def outlasting(self, tokens: int) -> int | None:
        """The shortest reply whose decode outlasts the prefill of `tokens`; None where that is not known.

        A request alone decodes fastest, so a batch only takes longer.
        """
        known = not self.partial and self.step_s > 0
        return math.ceil(self.prefill_s(tokens) / self.step_s) if known else None


def costs_of(target: str, store: Store | None = None, platform: str = "") -> Costs | None:
    """What a rung costs on a target: the twin's own constants, else a fitted or printed wall law; else
    None.
    """
    address = parse_target(target) if target else None
    if isinstance(address, TwinAddress):
        return _costs_of_twin(address)
    fits = _fits(store, address.where) if store and address else []
    if fits:
        fit = fits[-1].rows("fit")[0]
        source = f"wall law {fits[-1].seal[:12]}"
        return Costs(fit["c0_s"], fit["k_s_per_token"], 0.0, 0.0, 0.0, 0, 0, True, source)
    layout = layout_for("kimi-k3", platform) if platform else None
    if layout is None or layout.wall is None:
        return None
    wall = layout.wall
    return Costs(
        wall.c0_s,
        wall.k_s_per_token,
        0.0,
        0.0,
        0.0,
        0,
        layout.slots,
        True,
        f"printed wall law, {layout.name}",
    )


def _fits(store: Store, address: str) -> list[Artifact]:
    """Wall laws of what was swept at an address."""
    swept = {
        run.subject
        for run in store.artifacts(name="osl-sweep")
        if run.serve.get("place") == place_mark(address)
    }
    return [law for law in store.artifacts(name="wall-law") if law.subject in swept]


def _costs_of_twin(address: TwinAddress) -> Costs:
    twin = load("k3repro.targets", "twin")
    settings = {name: value for name, value in address.settings.items() if name != "seed"}
    p = twin.platform(address.platform).with_overrides(settings)
    return Costs(
        p.c0_ns / 1e9, p.step_ns / 1e9, p.step_sequence_ns / 1e9, p.prefill_step_ns / 1e9,
        p.prefill_token_ns / 1e9, p.prefill_lane_tokens * p.lanes, p.slots, False,
        f"constants of {address.where}", )  # fmt: skip
