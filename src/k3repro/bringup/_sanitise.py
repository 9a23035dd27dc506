"""What may stand in a cluster file: names, addresses and paths that no shell or option parser can misread.

Everything rendered is quoted as well; refusing is the first wall, quoting the second.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from typing import Any

from k3repro.bringup._names import nearest
from k3repro.errors import SpecError
from k3repro.store import looks_secret

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_IMAGE = re.compile(
    r"[a-z0-9][a-z0-9._/-]*(?::[0-9]+/[a-z0-9._/-]+)?(?::[A-Za-z0-9_.-]{1,128})?(?:@sha256:[0-9a-f]{64})?"
)
_PATH = re.compile(r"/[A-Za-z0-9_./+ '-]*")
_SECRET = re.compile(
    r"(?i)(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(?:$|_)"
)


# What a plan may not hold: --long-prefill-token-threshold counts tokens, HF_TOKEN is one.
_KEY = re.compile(
    r"(?i)(?:^|_)(?:TOKEN$|(?:SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)(?:$|_))"
)
_USERINFO = re.compile(r"(?<=://)[^/\s@'\"]+@")
_ASSIGNED = re.compile(
    r"(?i)(?<![A-Za-z0-9])((?:[A-Za-z0-9]+_)*(?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d)"
    r"['\"]?\s*[=:]\s*)(\[?['\"]?)[^\s'\",\]})]+"
)
_BEARER = re.compile(r"(?i)\bbearer\s+\S+")


def hide(text: str) -> str:
    """`text` without keys, tokens and passwords: what nodes say is printed, stored and published."""
    text = _BEARER.sub("[key]", _USERINFO.sub("", text))
    text = _ASSIGNED.sub(r"\1\2[key]", text)
    return re.sub(r"\S+", lambda word: "[key]" if looks_secret(word[0]) else word[0], text)


def clean_environment() -> dict[str, str]:
    """This process's variables without secrets: engines live for days, the router sends OPENAI_API_KEY on.

    Slurm's own variables stay, its commands need them.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("SLURM_") or not (_SECRET.search(name) or _secret_value(value))
    }


def host_name(value: Any, where: str) -> str:
    """A node, user, partition or interface name.

    Raises:
        SpecError: anything that ssh, srun or a shell could read as more than a name.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        fix = "Use letters, digits, dot, dash and underscore, beginning with a letter or digit."
        raise SpecError(f"{value!r} is not a name", where=where, fix=fix)
    return value


def address(value: Any, where: str) -> str:
    """An IP address, or a host name.

    Raises:
        SpecError: neither.
    """
    try:
        return str(ipaddress.ip_address(value if isinstance(value, str) else ""))  # 167 is 0.0.0.167 to it
    except ValueError:
        if isinstance(value, str) and re.fullmatch(r"[0-9.]+", value):
            fix = "Four numbers up to 255, with dots between."
            raise SpecError(f"{value!r} is not an IP address", where=where, fix=fix) from None
        return host_name(value, where)


def path(value: Any, where: str) -> str:
    """An absolute path; spaces and single quotes are allowed, because rendering quotes them.

    Raises:
        SpecError: relative, a parent step, or a character with a meaning for a shell or for docker's -v.
    """
    if not isinstance(value, str) or not _PATH.fullmatch(value) or ".." in value.split("/"):
        fix = "Give an absolute path of letters, digits and _ . / + - ' and spaces, without .. steps."
        raise SpecError(f"{value!r} is not a path that can be used", where=where, fix=fix)
    return value


def image(value: Any, where: str) -> str:
    """A container image reference.

    Raises:
        SpecError: not one.
    """
    if not isinstance(value, str) or not _IMAGE.fullmatch(value):
        fix = "For example name/image:tag or name/image@sha256:..."
        raise SpecError(f"{value!r} is not an image reference", where=where, fix=fix)
    return value


_SET_HERE = ("nodes", "exclusive", "mem", "mem-per-cpu", "mem-per-gpu", "gres", "nodelist", "account", "qos",
             "reservation", "partition", "time", "job-name", "output", "no-shell", "no-requeue", "requeue",
             "propagate", "signal", "wrap")  # fmt: skip


def slurm_option(option: str, where: str) -> None:
    """One more option of sbatch and salloc. Slurm takes unambiguous beginnings of a name as well.

    Raises:
        SpecError: not one option, or one that would undo what the tool asks for.
    """
    if not re.fullmatch(r"--[a-z][a-z-]*(=[A-Za-z0-9_.,:/@%&|*+-]+)?", option):
        fix = "For example --constraint=mi300x."
        raise SpecError(f"{option!r} is not one option of sbatch", where=where, fix=fix)
    name = option.removeprefix("--").partition("=")[0]
    if known := next((item for item in _SET_HERE if item.startswith(name)), ""):
        fix = "It has a key of its own in [slurm], or a serve needs it as it is."
        raise SpecError(f"{option} would undo --{known}", where=where, fix=fix)


def no_secret(name: str, value: object, where: str, *, known: Iterable[str] = ()) -> None:
    """Refuse what looks like a key: a plan is printed, stored and published.

    A slip of the pen in one of the `known` options is no secret because one word of it is missing.

    Raises:
        SpecError: a variable or option that names a secret, or a value that is one.
    """
    near = nearest(name, known)
    if _names_key(near if near and not _names_key(near) else name) or _secret_value(str(value)):
        fix = "Weights are read from a local path and need no key; remove it."
        raise SpecError(f"{name} looks like a secret", where=where, fix=fix)


def _names_key(name: str) -> bool:
    return _KEY.search(name.strip("-").replace("-", "_")) is not None


def _secret_value(text: str) -> bool:
    return looks_secret(text) or bool(_USERINFO.search(text))
