"""Signed heads: somebody vouches, with an OpenSSH key, for everything the ledger held when they signed.

`signatures/DIGEST.txt` is the text that was signed (the heads) followed by its armoured SSH signature, as
`ssh-keygen -Y sign` writes it. `signers` names keys, in the format of git and ssh (`ssh-keygen(1)`, ALLOWED
SIGNERS). A site's own list says only whom the site claims: who audits gives a list of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from k3repro.errors import InputError, MissingExtra
from k3repro.store._files import write_atomic
from k3repro.store._ledger import Entry, Ledger

__all__ = ["SIGNERS", "Signed", "read_signed", "sign_heads"]

NAMESPACE = "k3repro"
SIGNERS = "signers"
_TITLE = "k3repro heads 1\n"
_BEGIN = "-----BEGIN SSH SIGNATURE-----"
_HEADS = re.compile(rf"{_TITLE}(?:[0-9a-f]{{64}}\n)+")
_LARGEST, _MOST = 64_000, 200
_PATIENCE_S = 20
_NAME = re.compile(r"[\w@.+-]{1,80}")


@dataclass
class Signed:
    """Who vouches for which ledger entries; `problems` are (file, what is wrong with its signature)."""

    entries: dict[str, frozenset[str]] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def of(self, entry: Entry | None) -> frozenset[str]:
        """The names that vouch for an entry."""
        return self.entries.get(entry.id, frozenset()) if entry else frozenset()


def sign_heads(root: Path, ledger: Ledger, key: Path, name: str = "") -> Path:
    """Sign today's heads; returns the file. `name` also enters the key's public half into `signers`.

    key: a private key, or a public one whose private half an agent holds.

    Raises:
        InputError: no ledger, no such key, or ssh-keygen refuses. MissingExtra: ssh-keygen is not installed.
    """
    if not (heads := ledger.heads()):
        raise InputError("nothing to sign: the ledger is empty", where=str(root))
    text = _TITLE + "".join(f"{head}\n" for head in heads)
    answer = _ssh(["-Y", "sign", "-f", str(key), "-n", NAMESPACE], text)
    if answer.returncode:
        raise InputError(f"ssh-keygen does not sign: {_said(answer)}", where=str(key), fix="Check the key.")
    if name:
        _enter(root / SIGNERS, name, key)
    path = root / "signatures" / f"{sha256(text.encode()).hexdigest()[:16]}-{_fingerprint(answer.stdout)}.txt"
    write_atomic(path, (text + answer.stdout).encode())
    return path


def read_signed(root: Path, ledger: Ledger, signers: Path | None = None) -> Signed:
    """Every entry that a signed head descends from, with the names of `signers` (default: the store's own).

    Raises:
        InputError: `signers` is no file. MissingExtra: there is something to check, and no ssh-keygen.
    """
    if signers is not None and not signers.is_file():
        raise InputError(
            "no list of signers", where=str(signers), fix="Give an OpenSSH allowed_signers file."
        )
    signers = (signers or root / SIGNERS).resolve()
    signed, found = Signed(), dict[str, set[str]]()
    paths = sorted((root / "signatures").glob("*"))
    for path in paths[:_MOST]:
        try:
            heads, name = _verified(path, signers)
        except InputError as error:
            signed.problems.append((f"signatures/{path.name}", error.what))
            continue
        for entry in ledger.ancestors(heads):
            found.setdefault(entry, set()).add(name)
    if len(paths) > _MOST:
        signed.problems.append(("signatures", f"more than {_MOST} files: the rest was not read"))
    signed.entries = {entry: frozenset(names) for entry, names in found.items()}
    return signed


def _verified(path: Path, signers: Path) -> tuple[list[str], str]:
    """The heads that a file signs, and who signed them."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        raise InputError("not a file of a signature's size")
    text, begin, armour = path.read_text("utf-8", "replace").partition(_BEGIN)
    if not _HEADS.fullmatch(text) or not begin:
        raise InputError("not a list of heads with a signature")
    if not signers.is_file():
        raise InputError("signed, and no list of signers says by whom")
    with tempfile.TemporaryDirectory() as folder:
        signature = Path(folder) / "signature"
        signature.write_text(begin + armour, "utf-8")
        known = _ssh(["-Y", "find-principals", "-s", str(signature), "-f", str(signers)], "")
        name = known.stdout.splitlines()[0].strip() if known.stdout.strip() else ""
        if known.returncode or not _NAME.fullmatch(name):
            raise InputError("signed with a key that the list of signers does not name")
        command = ["-Y", "verify", "-f", str(signers), "-I", name, "-n", NAMESPACE, "-s", str(signature)]
        if (answer := _ssh(command, text)).returncode:
            raise InputError(f"its signature does not hold: {_said(answer)}")
    return text.removeprefix(_TITLE).split(), name


def _enter(signers: Path, name: str, key: Path) -> None:
    """Add `name` with the public half of `key`, unless the line is there."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} names no signer", fix="Use letters, digits, @ . + - _ and no space.")
    answer = _ssh(["-y", "-f", str(key)], "")
    public = key.read_text("utf-8") if key.suffix == ".pub" else answer.stdout
    kind, body, *_ = [*public.split(), "", ""]
    line = f'{name} namespaces="{NAMESPACE}" {kind} {body}\n'
    old = signers.read_text("utf-8") if signers.is_file() else ""
    if body and line not in old:
        write_atomic(signers, (old + line).encode())


def _ssh(arguments: list[str], text: str) -> subprocess.CompletedProcess[str]:
    environment = {
        k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "SSH_AUTH_SOCK", "SSH_ASKPASS")
    }
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments], input=text, capture_output=True, text=True, check=False,
            timeout=_PATIENCE_S, env={**environment, "LC_ALL": "C"},
        )  # fmt: skip
    except FileNotFoundError:
        raise MissingExtra("signatures need ssh-keygen", fix="Install OpenSSH's client tools.") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"ssh-keygen took longer than {_PATIENCE_S} s") from None


def _said(answer: subprocess.CompletedProcess[str]) -> str:
    return " ".join((answer.stderr or answer.stdout).split())[:160] or f"exit {answer.returncode}"


def _fingerprint(armour: str) -> str:
    return sha256(armour.encode()).hexdigest()[:8]
