"""Counting the tokens of a text before it is sent: by the server's own endpoint, or by a tokenizer file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from k3repro.errors import InputError, MissingExtra

__all__ = ["Counter", "FileCounter", "ServerCounter", "counter_of"]

_FORMS = ("prompt", "content", "inputs")  # vLLM and SGLang, llama.cpp, TGI
_AT_ONCE = 16


class Counter(Protocol):
    """Counts tokens as the model does, up to a constant (template, special tokens) that calibration finds."""

    name: str

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""


class ServerCounter:
    """The server's ``/tokenize``. Nothing is generated."""

    def __init__(self, target: Any, form: str) -> None:
        self.name = "the server's /tokenize"
        self._target = target
        self._form = form

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text.

        Raises:
            InputError: the endpoint stopped answering as it did.
        """
        found = self._target.run(_ask_all, self._form, texts)
        if None in found:
            raise InputError(
                "/tokenize stopped answering", where=self._target.subject, fix="--tokenizer none"
            )
        return [count for count in found if count is not None]


class FileCounter:
    """A ``tokenizer.json`` of the model (Hugging Face `tokenizers`)."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            fix = "pip install 'k3repro[tokenizer]', or leave --tokenizer out."
            raise MissingExtra("tokenizers is not installed", where="--tokenizer", fix=fix) from None
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises its bare base class
            fix = "Give the model's tokenizer.json or the folder that holds it."
            raise InputError(f"no tokenizer: {error}", where=str(path), fix=fix) from None
        self.name = f"tokenizer file {file.name}"

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        return [len(found.ids) for found in self._tokenizer.encode_batch(list(texts))]


def counter_of(target: Any, tokenizer: str = "") -> Counter | None:
    """How texts are counted: ``""``: the server's endpoint where it has one, ``"none"``: not at all, else
    the tokenizer file or folder of that name.

    Raises:
        InputError, MissingExtra: the file is no tokenizer, or the library is missing.
    """
    if tokenizer == "none":
        return None
    if tokenizer:
        return FileCounter(Path(tokenizer).expanduser())
    for form in _FORMS:
        short, long = target.run(_ask_all, form, ["a b c", "a b c d e f a b c d e f"])
        if short is not None and long is not None and 0 < short < long:
            return ServerCounter(target, form)
    return None


async def _ask_all(target: Any, form: str, texts: Sequence[str]) -> list[int | None]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(text: str) -> int | None:
        async with gate:
            answer = await target.fetch("/tokenize", {"model": target.model, form: text}, timeout_s=120.0)
        return _count(answer.json if answer.status == 200 else None)

    return list(await asyncio.gather(*(ask(text) for text in texts)))


def _count(said: Any) -> int | None:
    if isinstance(said, dict):
        count, tokens = said.get("count"), said.get("tokens")
        return count if type(count) is int else len(tokens) if isinstance(tokens, list) else None
    return len(said) if isinstance(said, list) else None
