"""Heads signed with the real ssh-keygen: who vouches for what, and what does not count."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from store_samples import mean_wall, seal_sweep

from k3repro.errors import InputError
from k3repro.store import Store, read_signed


def key(folder: Path, name: str) -> Path:
    path = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def allowed(folder: Path, **names: Path) -> Path:
    path = folder / "allowed_signers"
    public = {name: file.with_suffix(".pub").read_text() for name, file in names.items()}
    path.write_text("".join(f'{name} namespaces="k3repro" {text}' for name, text in public.items()))
    return path


def test_a_signature_vouches_for_what_stood_in_the_ledger(store: Store, tmp_path: Path) -> None:
    first = seal_sweep(store)
    ann = key(tmp_path, "ann")
    store.sign(ann, "ann@example.org")
    before = set(store.ledger.entries())
    later = store.derive(mean_wall, [first])
    signed = read_signed(store.root, store.ledger)
    assert signed.problems == [] and set(signed.entries) == before
    entries = {entry.seal: entry for entry in store.ledger.entries().values()}
    assert signed.of(entries[first.seal]) == {"ann@example.org"} and not signed.of(entries[later.seal])
    store.sign(ann)
    assert read_signed(store.root, store.ledger).of(entries[later.seal]) == {"ann@example.org"}
    assert store.verify(full=True) == []


def test_whose_signatures_count_is_the_auditors_choice(store: Store, tmp_path: Path) -> None:
    """A forger enters a key of his own under a good name: the auditor's list does not know it."""
    seal_sweep(store)
    store.sign(key(tmp_path, "forger"), "ann@example.org")
    assert set(read_signed(store.root, store.ledger).entries) == set(store.ledger.entries())
    real = allowed(tmp_path, ann=key(tmp_path, "ann"))
    judged = read_signed(store.root, store.ledger, real)
    assert judged.entries == {} and "does not name" in judged.problems[0][1]
    with pytest.raises(InputError, match="no list of signers"):
        read_signed(store.root, store.ledger, tmp_path / "nothing")


@pytest.mark.parametrize("damage", ["heads", "armour", "namespace", "link", "size", "nonsense"])
def test_a_signature_that_does_not_hold_is_said(store: Store, tmp_path: Path, damage: str) -> None:
    seal_sweep(store)
    ann = key(tmp_path, "ann")
    path = store.sign(ann, "ann")
    text = path.read_text()
    if damage == "heads":
        head = store.heads()[0]
        path.write_text(text.replace(head, "0" * 64))
    elif damage == "armour":
        path.write_text(text.replace("\nAAAA", "\nBBBB").replace("U1NI", "U1NJ"))
    elif damage == "namespace":
        heads, _, _ = text.partition("-----BEGIN")
        command = ["ssh-keygen", "-Y", "sign", "-f", str(ann), "-n", "file"]
        other = subprocess.run(command, input=heads, capture_output=True, text=True, check=True)
        path.write_text(heads + other.stdout)
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif damage == "size":
        path.write_text(text + " " * 100_000)
    else:
        path.write_text("signed by everybody")
    signed = read_signed(store.root, store.ledger)
    assert signed.entries == {} and len(signed.problems) == 1


def test_there_must_be_something_to_sign_and_a_key(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ledger is empty"):
        store.sign(key(tmp_path, "ann"))
    seal_sweep(store)
    with pytest.raises(InputError, match="does not sign"):
        store.sign(tmp_path / "absent")
    with pytest.raises(InputError, match="names no signer"):
        store.sign(tmp_path / "ann", "two words")
