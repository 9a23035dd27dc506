"""The skeleton of a source: per numeral token, offset, place and a salted hash of its context.

Anyone can check coverage from the skeleton; whoever holds the source can check that the skeleton is true.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k3repro.claims._source import Located, Source
from k3repro.errors import InputError

__all__ = ["Bone", "Skeleton", "build_skeleton", "read_skeleton", "write_skeleton"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Bone:
    """One numeral of a source."""

    token: str
    offset: int
    place: str
    context: str


@dataclass(frozen=True, slots=True)
class Skeleton:
    """All numerals of a source, with the SHA-256 of the file they stand in."""

    document: str
    sha256: str
    salt: str
    bones: tuple[Bone, ...]

    def by_place(self) -> dict[str, Bone]:
        return {bone.place: bone for bone in self.bones}

    def matches(self, source: Source) -> list[str]:
        """What differs between the skeleton and a source; empty when the skeleton is true."""
        problems = (
            []
            if source.sha256 == self.sha256
            else [f"the source's SHA-256 is {source.sha256}, not {self.sha256}"]
        )
        true = _bones(source.located, self.salt)
        if len(true) != len(self.bones):
            problems.append(f"the source has {len(true)} numerals, the skeleton {len(self.bones)}")
        for bone, other in zip(self.bones, true, strict=False):
            if bone != other:
                problems.append(
                    f"skeleton: {bone.token!r} at {bone.place}; source: {other.token!r} at {other.place}"
                )
                break
        return problems

    def lost(self, source: Source) -> set[str]:
        """Places whose numeral, in its context, is nowhere in the source."""
        present = {(bone.token, bone.context) for bone in _bones(source.located, self.salt)}
        return {bone.place for bone in self.bones if (bone.token, bone.context) not in present}


def build_skeleton(document: str, source: Source, *, salt: str = "") -> Skeleton:
    """The skeleton of a read source, under a fresh random salt unless one is given."""
    salt = salt or secrets.token_hex(16)
    return Skeleton(document, source.sha256, salt, tuple(_bones(source.located, salt)))


def _bones(located: Sequence[Located], salt: str) -> list[Bone]:
    return [Bone(item.token, item.numeral.start, item.place, _hash(item, salt)) for item in located]


def _hash(item: Located, salt: str) -> str:
    context = " ".join(f"{item.before}\0{item.following}".split())
    return hashlib.sha256(f"{salt}\0{context}".encode()).hexdigest()[:16]


def write_skeleton(skeleton: Skeleton, path: Path) -> None:
    """Write as JSON, one numeral a line."""
    lines = [json.dumps([b.token, b.offset, b.place, b.context], ensure_ascii=False) for b in skeleton.bones]
    head = json.dumps(
        {"version": VERSION, "document": skeleton.document, "sha256": skeleton.sha256, "salt": skeleton.salt}
    )
    path.write_text(f'{head[:-1]}, "numerals": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def read_skeleton(path: Path) -> Skeleton:
    """Read a skeleton.

    Raises:
        InputError: missing, malformed or of another version.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        bones = tuple(Bone(str(t), int(o), str(p), str(c)) for t, o, p, c in data["numerals"])
        version = data["version"]
        skeleton = Skeleton(str(data["document"]), str(data["sha256"]), str(data["salt"]), bones)
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}", where=str(path), fix="Give --source FILE."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"is no skeleton: {error}", where=str(path)) from None
    if version != VERSION:
        raise InputError(f"is a skeleton of version {version}, not {VERSION}", where=str(path))
    return skeleton
