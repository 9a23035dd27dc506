"""k3repro: reproducible LLM-serving studies in which every number has an artifact."""

__version__ = "0.1.0"
