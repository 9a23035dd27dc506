"""The Kimi-K3 study: two prefill and two decode nodes, and what was published about them."""

from k3repro import registry

__all__ = ["STUDY"]

STUDY = registry.Study("kimi_k3", "Kimi-K3 on 2P2D", __name__)
