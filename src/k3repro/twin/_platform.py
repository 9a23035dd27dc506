"""A platform of the twin: integer constants, and overrides from the target string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

from k3repro.capacity import Engine
from k3repro.errors import UsageError
from k3repro.spec import Model, load_layout
from k3repro.twin._faults import canonical
from k3repro.twin._paging import Paging, described, paging_of

__all__ = ["Platform", "checked", "paging"]


@dataclass(frozen=True, slots=True)
class Platform:
    """Constants of one simulated cluster. `*_ns` are integer nanoseconds; token fields count tokens.

    The expert all-to-all keeps the lanes of a pool in lockstep, so a step has one cost (`_costs.py`).
    `graph` is the decode graph mode (full, piecewise, none), `native_graph` that of the calibration;
    `readback` the barrier of a handoff (multi, single, fence, off); `defect` switches defects on
    (`NAME=RATE`, comma between; `k3repro twin defects` lists them). `kv_splits` is how decode attention cuts
    the cache of a sequence: with `one` split a step waits for its longest sequence (`step_longest_ps` a
    token); with as many as the engine has `chosen` it pays for the tokens of its fullest lane alone
    (`step_context_ps` a token, paid in both modes). Prefill pays `prefill_pair_fs` a pair of tokens.
    """

    name: str
    model: str
    max_model_len: int
    lanes: int
    max_num_seqs: int
    prefill_lane_tokens: int
    c0_ns: int
    c0_prompt_tokens: int
    step_ns: int
    step_sequence_ns: int
    prefill_step_ns: int
    prefill_token_ns: int
    gather_ns: int
    jitter_ppm: int
    layout: str
    kv_pool_bytes: int
    prefix_caching: int
    step_context_ps: int
    link_bytes_per_s: int
    native_link_bytes_per_s: int
    graph: str
    native_graph: str
    graph_ns: int
    graph_size_bytes: int
    graph_sizes: int
    heap_bytes: int
    room_bytes: int
    readback: str = "multi"
    kv_splits: str = "one"
    defect: str = ""
    step_longest_ps: int = 0
    prefill_pair_fs: int = 0

    @property
    def handoff_ns(self) -> int:
        """Prefill end to decode reservation: what is left of C0 once gathering, one prefill step and the
        wire time of the sweep's prompt are taken off.
        """
        tokens = self.c0_prompt_tokens
        prefill = self.prefill_step_ns + self.prefill_token_ns * tokens
        prefill += self.prefill_pair_fs * (tokens * tokens // 2) // 1_000_000
        return self.c0_ns - self.gather_ns - prefill - self.wire_ns

    @property
    def wire_ns(self) -> int:
        """Wire time of a handoff in the sweep behind the wall law, over the link it was measured on."""
        pages = paging(self)
        size = pages.state_bytes + pages.token_bytes * (self.c0_prompt_tokens - 1)
        return size * 1_000_000_000 // self.native_link_bytes_per_s

    @property
    def graph_bytes(self) -> int:
        """Memory of the captured decode graphs."""
        return 0 if self.graph == "none" else self.graph_sizes * self.graph_size_bytes

    @property
    def slots(self) -> int:
        """In-flight places of the decode pool."""
        return self.lanes * self.max_num_seqs

    @property
    def spec_platform(self) -> str:
        """Name of the platform's spec."""
        return load_layout(self.layout).platform

    def described(self) -> tuple[Model, Engine]:
        """Model and engine behind the cache, as the block law wants them."""
        return described(self.layout, bool(self.prefix_caching))

    def paging(self) -> Paging:
        """Blocks of one lane's pool, whether or not the longest request fits."""
        return paging_of(*self.described(), self.kv_pool_bytes)

    def with_overrides(self, overrides: Mapping[str, str]) -> Self:
        """A copy with fields replaced by text from a target string; UsageError names the bad one."""
        changed = {name: _override(type(self), name, text) for name, text in overrides.items()}
        return checked(replace(self, **changed))


_POSITIVE = (
    "max_model_len", "lanes", "max_num_seqs", "prefill_lane_tokens", "step_ns", "link_bytes_per_s",
    "native_link_bytes_per_s",
)  # fmt: skip
# Times stay exact as 64-bit integers; every lane costs memory.
_LARGEST, _MOST = 2**63 - 1, {"lanes": 4096}
_WORDS: dict[str, tuple[str, ...]] = {
    "graph": ("full", "piecewise", "none"),
    "native_graph": ("full", "piecewise", "none"),
    "readback": ("multi", "single", "fence", "off"),
    "kv_splits": ("one", "chosen"),
}


def _text(kind: type[Platform]) -> set[str]:
    return {field.name for field in fields(kind) if field.type == "str"}


def _override(kind: type[Platform], name: str, text: str) -> Any:
    known = sorted(field.name for field in fields(kind) if field.name != "name")
    if name not in known:
        raise UsageError(
            f"the twin has no setting {name!r}", where="target", fix=f"known: seed, {', '.join(known)}"
        )
    if name == "defect":
        return canonical(text)
    if name in _WORDS and text not in _WORDS[name]:
        raise UsageError(f"{name} is {text!r}", where="target", fix=f"one of {', '.join(_WORDS[name])}")
    if name in _text(kind):
        if not text:
            raise UsageError(f"{name} is empty", where="target", fix="give it a name, or leave it out")
        return text
    try:
        value = int(text.replace("_", ""))
    except ValueError:
        raise UsageError(
            f"{name} is {text[:40]!r}, not a whole number", where="target", fix=f"for example {name}=8"
        ) from None
    if value > _MOST.get(name, _LARGEST):
        most = _MOST.get(name, _LARGEST)
        raise UsageError(f"{name} is {text[:40]}", where="target", fix=f"at most {most}")
    return value


P = TypeVar("P", bound=Platform)


def checked(value: P) -> P:
    """`value`, or UsageError: a field out of range, or more memory asked for than there is."""
    for name in _POSITIVE:
        if getattr(value, name) < 1:
            raise UsageError(f"{name} must be at least 1", where=f"twin:{value.name}")
    text = _text(type(value))
    for field in fields(value):
        if field.name not in text and getattr(value, field.name) < 0:
            raise UsageError(f"{field.name} must not be negative", where=f"twin:{value.name}")
    need = value.heap_bytes + value.kv_pool_bytes + value.graph_bytes
    if need > value.room_bytes:
        raise UsageError(
            f"heap, KV pool and captured graphs take {need} bytes, weights leave {value.room_bytes}: the "
            "engine would run out of memory during capture",
            where=f"twin:{value.name}",
            fix="lower kv_pool_bytes, heap_bytes or graph_sizes, or set graph=none",
        )
    if value.handoff_ns < 0:
        raise UsageError(
            "c0_ns is smaller than gathering plus one prefill step",
            where=f"twin:{value.name}",
            fix="raise c0_ns, or lower prefill_step_ns or prefill_token_ns",
        )
    if value.jitter_ppm >= 1_000_000:
        raise UsageError("jitter_ppm must be below 1000000", where=f"twin:{value.name}")
    return value


def paging(platform: Platform) -> Paging:
    """The paging of `platform`.

    Raises:
        UsageError: one request of max_model_len does not fit a lane, so the engine would not start.
    """
    found = platform.paging()
    if found.longest < platform.max_model_len:
        raise UsageError(
            f"a pool of {platform.kv_pool_bytes} bytes holds one request of {found.longest} tokens, "
            f"max_model_len is {platform.max_model_len}",
            where=f"twin:{platform.name}",
            fix="raise kv_pool_bytes, or lower max_model_len",
        )
    return found
