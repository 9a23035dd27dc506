"""Reading a completion request the way vLLM's OpenAI server does, with the status and error body it would
answer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from k3repro.errors import InputError
from k3repro.twin._answers import answer
from k3repro.twin._fields import WrongField, boolean, integer, number
from k3repro.twin._render import Generation, error_reply
from k3repro.twin._tokenizer import count_tokens, decode, pieces

__all__ = ["Refused", "accept", "block_hashes", "parse_json", "prompt_text"]

COMPLETION_DEFAULT_TOKENS = 16
_decode = json.JSONDecoder().decode


@dataclass(frozen=True, slots=True)
class Served:
    """What every request of one serve shares."""

    model: str
    max_model_len: int
    seed: int
    fingerprint: str
    block_tokens: int = 0  # of the prefix cache; 0: it is off
    twist: Callable[[str, bool], tuple[bool, int]] | None = None  # prompt, chat -> needle lost, preamble


class Refused(Exception):
    """The request gets an error response; `reply` is its bytes."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.reply = error_reply(status, message, kind, param)


def parse_json(body: bytes) -> dict[str, Any]:
    """The request document; malformed input is refused with FastAPI's wording."""
    if not body.strip():
        raise _invalid({"type": "missing", "loc": ("body",), "msg": "Field required", "input": None})
    try:
        value = _decode(body.decode())
    except (ValueError, RecursionError) as error:
        place = getattr(error, "pos", 0)
        reason = getattr(error, "msg", type(error).__name__)
        detail = {"type": "json_invalid", "loc": ("body", place), "msg": "JSON decode error", "input": {}}
        raise _invalid({**detail, "ctx": {"error": reason}}) from None
    if not isinstance(value, dict):
        raise _invalid({"type": "dict_type", "loc": ("body",), "msg": "Input should be a valid dictionary"})
    return value


def _invalid(detail: dict[str, Any]) -> Refused:
    return Refused(400, str([detail]), "Bad Request")


def _wrong(field: str, expected: str, value: Any) -> Refused:
    detail = {
        "type": f"{expected}_type",
        "loc": ("body", field),
        "msg": f"Input should be a valid {expected}",
    }
    return _invalid({**detail, "input": value if isinstance(value, (int, float, str)) else None})


def accept(document: dict[str, Any], served: Served, *, chat: bool) -> Generation:
    """The generation a valid request starts. Raises Refused otherwise."""
    model = _optional(document, "model", str) or served.model
    if model != served.model:
        raise Refused(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    _no_choices(document)
    prompt, prompt_tokens = prompt_text(document, chat=chat)
    max_tokens = _max_tokens(document, prompt_tokens, served, chat=chat)
    _sampling(document)
    options = _optional(document, "stream_options", dict) or {}
    if options and not _optional(document, "stream", bool):
        raise Refused(400, "Stream options can only be defined when `stream=True`.", param="stream_options")
    lost, preamble = served.twist(prompt, chat) if served.twist else (False, 0)
    said = answer(
        prompt,
        served.seed,
        max_tokens,
        ignore_eos=bool(_optional(document, "ignore_eos", bool)),
        stop=_stop(document),
        lost=lost,
        preamble=preamble,
    )
    generation = Generation(
        said,
        prompt_tokens,
        model=served.model,
        fingerprint=served.fingerprint,
        chat=chat,
        stream=bool(_optional(document, "stream", bool)),
        include_usage=bool(options.get("include_usage")),
        continuous_usage=bool(options.get("include_usage") and options.get("continuous_usage_stats")),
    )
    if served.block_tokens:
        generation.hashes = block_hashes(prompt, served.block_tokens)
    return generation


def block_hashes(prompt: str, block_tokens: int) -> list[int]:
    """One number for each full block of a prompt, which depends on everything before it as well."""
    tokens = pieces(prompt)
    found: list[int] = []
    key = b""
    for start in range(0, len(tokens) - block_tokens + 1, block_tokens):
        block = "".join(tokens[start : start + block_tokens]).encode("utf-8", "surrogatepass")
        key = blake2b(block, key=key, digest_size=8).digest()
        found.append(int.from_bytes(key, "big"))
    return found


def prompt_text(document: dict[str, Any], *, chat: bool) -> tuple[str, int]:
    """Text and token count of the prompt: text, token ids, or chat messages."""
    if chat:
        text = _messages(document.get("messages"))
        return text, count_tokens(text)
    prompt = document.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt, count_tokens(prompt)
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        try:
            return decode(prompt), len(prompt)
        except InputError as error:
            raise Refused(400, str(error.what).capitalize() + ".") from None
    if isinstance(prompt, list) and len(prompt) > 1 and isinstance(prompt[0], (str, list)):
        raise Refused(400, "The twin takes one prompt a request.", param="prompt")
    raise Refused(400, "Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")


def _messages(messages: Any) -> str:
    if not isinstance(messages, list) or not messages:
        raise _wrong("messages", "list", messages)
    parts = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _wrong("messages", "dict", message)
        parts.append(f"[{message['role']}] {_content(message.get('content'))}\n")
    return "".join(parts) + "[assistant]"


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(str(part.get("text", "")) for part in content)
    raise _wrong("messages", "string", content)


def _optional(document: dict[str, Any], field: str, kind: type) -> Any:
    value = document.get(field)
    if value is None or type(value) is kind:
        return value
    try:
        return _READ[kind](value)
    except WrongField as wrong:
        shown = value if isinstance(value, (int, float, str)) else None
        detail = {"type": wrong.kind, "loc": ("body", field), "msg": wrong.sentence, "input": shown}
        raise _invalid(detail) from None


def _dictionary(value: Any) -> dict[str, Any]:
    raise WrongField("model_type", "Input should be a valid dictionary or instance of StreamOptions")


def _text(value: Any) -> str:
    raise WrongField("string_type", "Input should be a valid string")


_READ: dict[type, Callable[[Any], Any]] = {
    bool: boolean, int: integer, float: number, dict: _dictionary, str: _text,
}  # fmt: skip


def _sampling(document: dict[str, Any]) -> None:
    """The ranges of what an engine would sample by; the twin's answers do not depend on them."""
    heat, top = _optional(document, "temperature", float), _optional(document, "top_p", float)
    if heat is not None and not math.isfinite(heat):
        raise Refused(400, f"temperature must be a finite number, got {heat}.", param="temperature")
    if heat is not None and heat < 0:
        raise Refused(400, f"temperature must be non-negative, got {heat}.", param="temperature")
    if top is not None and not 0 < top <= 1:
        raise Refused(400, f"top_p must be in (0, 1], got {top}.", param="top_p")


def _no_choices(document: dict[str, Any]) -> None:
    if _optional(document, "n", int) not in (1, None):
        raise Refused(400, "The twin gives one choice a request: n must be 1.", param="n")


def _max_tokens(document: dict[str, Any], prompt_tokens: int, served: Served, *, chat: bool) -> int:
    asked = _optional(document, "max_completion_tokens", int) if chat else None
    asked = _optional(document, "max_tokens", int) if asked is None else asked
    if asked is not None and asked < 1:
        raise Refused(400, f"max_tokens must be at least 1, got {asked}.", param="max_tokens")
    room = served.max_model_len - prompt_tokens
    wanted = (
        asked
        if asked is not None
        else (max(room, 1) if chat else min(COMPLETION_DEFAULT_TOKENS, max(room, 1)))
    )
    if wanted > room:
        limit = f"This model's maximum context length is {served.max_model_len} tokens. "
        request = f"However, you requested {wanted} output tokens and your prompt contains "
        total = f"{prompt_tokens} input tokens, for a total of {wanted + prompt_tokens} tokens. "
        advice = "Please reduce the length of the input prompt or the number of requested output tokens."
        raise Refused(400, limit + request + total + advice, param="input_tokens")
    return wanted


def _stop(document: dict[str, Any]) -> list[str]:
    stop = document.get("stop")
    if stop is None:
        return []
    words = [stop] if isinstance(stop, str) else stop
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _wrong("stop", "string", stop)
    return words
