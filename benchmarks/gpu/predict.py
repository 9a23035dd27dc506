"""Seal what the laws predict of every launch of launches.toml: ``python predict.py [--artifacts FOLDER]``."""

from __future__ import annotations

import argparse
from pathlib import Path

import launches

from k3repro.budget.sealed import seal_spec
from k3repro.capacity.launches import predict_launches
from k3repro.store import Artifact, Store

SUBJECT = "k3-rank-geometry@h200"


def predict(store: Store) -> Artifact:
    """The sealed predictions."""
    found, plan = launches.load()
    asked = [launch.as_dict() for launch in found.values()]
    inputs = [seal_spec(store, "models", "kimi-k3")]
    parameters = {"launches": asked, **plan}
    return store.derive(predict_launches, inputs, SUBJECT, parameters)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--artifacts", type=Path)
    sealed = predict(Store(parser.parse_args().artifacts))
    print(f"{sealed.name}@{sealed.subject} {sealed.seal[:12]}")
