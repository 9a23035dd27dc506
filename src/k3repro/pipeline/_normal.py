"""Executed notebooks with everything that differs between two equal runs taken out."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+")
_KERNEL_FILE = re.compile(r"(?:/[\w.-]+)*/ipykernel_\d+/(\d+)\.py")
_RANDOM_ID = re.compile(
    r"(?<=altair-viz-)[0-9a-f]{32}|(?<=vega-embed-)[0-9a-f-]{32,36}|"
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b"
)
_CELL_METADATA = ("tags", "jupyter")


def normalise(notebook: Mapping[str, Any], hidden: Mapping[str, str]) -> bytes:
    """The bytes of an executed notebook: no timings, paths, addresses or random ids; two runs give the same.

    `hidden` maps path prefixes to words, longest first wins.
    """
    cleaner = _Cleaner(hidden)
    cells = [cleaner.cell(number, cell) for number, cell in enumerate(notebook["cells"])]
    metadata = notebook.get("metadata", {})
    document = {
        "cells": cells,
        "metadata": {
            "kernelspec": dict(metadata.get("kernelspec", {})),
            "language_info": {"name": metadata.get("language_info", {}).get("name", "python")},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def carriage_returns(text: str) -> str:
    """What a terminal would show: a progress bar that redraws its line leaves the last drawing."""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(next((part for part in reversed(line.split("\r")) if part), "") for line in lines)


class _Cleaner:
    def __init__(self, hidden: Mapping[str, str]) -> None:
        self.hidden = sorted(hidden.items(), key=lambda item: -len(item[0]))
        self.ids: dict[str, str] = {}

    def cell(self, number: int, cell: Mapping[str, Any]) -> dict[str, Any]:
        metadata = cell.get("metadata", {})
        source = cell["source"]
        clean: dict[str, Any] = {
            "cell_type": cell["cell_type"],
            "id": hashlib.sha256(f"{number}\n{source}".encode()).hexdigest()[:8],
            "metadata": {key: metadata[key] for key in _CELL_METADATA if metadata.get(key)},
            "source": source,
        }
        if cell["cell_type"] == "code":
            clean["execution_count"] = cell.get("execution_count")
            clean["outputs"] = [self.output(item) for item in _merge(cell.get("outputs", []))]
        if cell.get("attachments"):
            clean["attachments"] = cell["attachments"]
        return clean

    def output(self, output: Mapping[str, Any]) -> dict[str, Any]:
        kind = output["output_type"]
        if kind == "stream":
            return {"output_type": kind, "name": output["name"], "text": self.text(output["text"])}
        if kind == "error":
            lines = [self.text(line) for line in output["traceback"]]
            return {
                "output_type": kind,
                "ename": output["ename"],
                "evalue": self.text(output["evalue"]),
                "traceback": lines,
            }
        clean = {
            "output_type": kind,
            "data": self.value(output["data"]),
            "metadata": self.value(output["metadata"]),
        }
        if kind == "execute_result":
            clean["execution_count"] = output.get("execution_count")
        return clean

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def text(self, text: str) -> str:
        text = carriage_returns(_ANSI.sub("", text))
        text = _KERNEL_FILE.sub(r"<cell>", text)
        for path, word in self.hidden:
            text = text.replace(path, word)
        text = _ADDRESS.sub("0x…", text)
        return _RANDOM_ID.sub(self._numbered, text)

    def _numbered(self, match: re.Match[str]) -> str:
        return self.ids.setdefault(match.group(), f"{len(self.ids) + 1:032x}")


def _merge(outputs: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Join the stream pieces between two displays: where the kernel cut them is chance, stdout goes first."""
    merged: list[Mapping[str, Any]] = []
    streams: dict[str, str] = {}

    def flush() -> None:
        for name in sorted(streams, reverse=True):
            merged.append({"output_type": "stream", "name": name, "text": streams[name]})
        streams.clear()

    for output in outputs:
        if output["output_type"] == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + output["text"]
        else:
            flush()
            merged.append(output)
    flush()
    return merged
