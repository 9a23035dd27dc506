"""Files of a build: written only when bytes differ, hashed, compared."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["digest_of_files", "file_sha256", "irregular", "sync_tree", "tree_digests", "write_changed"]


def write_changed(path: Path, data: bytes | str) -> bool:
    """Write unless the file holds these bytes already; whether it was written."""
    raw = data.encode() if isinstance(data, str) else data
    if path.is_file() and path.read_bytes() == raw:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(raw)
    temporary.chmod(0o644)  # the umask of whoever builds must not show
    temporary.replace(path)
    return True


def sync_tree(root: Path, files: Mapping[str, bytes | str]) -> None:
    """Make `root` hold exactly `files`; untouched files keep their times."""
    for name, data in files.items():
        write_changed(root / name, data)
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(root).as_posix() not in files:
            path.unlink()


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def tree_digests(root: Path, *, skip: Iterable[str] = ()) -> dict[str, str]:
    """Path -> SHA-256 for every file below `root`, sorted."""
    left_out = set(skip)
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {name: file_sha256(path) for name, path in names.items() if name not in left_out}


_KINDS = frozenset({".html", ".css", ".js", ".json", ".csv", ".parquet", ".sql", ".toml", ".duckdb"})


def irregular(root: Path) -> dict[str, str]:
    """What below `root` is neither a file nor a folder, or a folder named like a file; name -> what it is."""
    wrong = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            wrong[name] = "a link leads out of what is checked"
        elif path.is_dir():
            if path.suffix in _KINDS:
                wrong[name] = "a folder with the name of a file"
        elif not path.is_file():
            wrong[name] = "neither a file nor a folder"
    return wrong


def digest_of_files(entries: Mapping[str, str]) -> str:
    """One digest over names and digests."""
    text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(entries.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def move_into(source: Path, target: Path) -> None:
    """Move what `source` holds into `target`, joining folders that both have; `source` is gone afterwards."""
    for path in sorted(source.iterdir()):
        into = target / path.name
        if path.is_dir() and into.is_dir():
            move_into(path, into)
        else:
            path.replace(into)
    source.rmdir()


def copy_file(source: Path, target: Path) -> None:
    """Copy bytes with mode 644."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o644)
