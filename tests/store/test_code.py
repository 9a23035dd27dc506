"""The code hash: comments and docstrings do not count, code does, re-exports lead to their origin."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3repro.store import code_closure, code_hash


def _package(folder: Path, **modules: str) -> None:
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


BASE = '"""Doc."""\n\ndef f(x):\n    """What f does."""\n    return x + 1  # why\n'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("def f(x):\n    return x + 1\n", True),
        ('"""Other."""\n\n\ndef f(\n    x,\n):\n    # more\n    return (x + 1)\n', True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(x):\n    return x + 1.0\n", False),
        ("def f(x):\n    return x - 1\n", False),
        ("def f(y):\n    return y + 1\n", False),
        ("def f(x):\n    return None\n", False),
        ("def f(x):\n    return\n", False),
        ('def f(x):\n    x = "text"\n    return x + 1\n', False),
        ("import k3repro.units\n\ndef f(x):\n    return x + 1\n", False),
    ],
)
def test_only_code_counts(folder: Path, text: str, same: bool) -> None:
    _package(folder, producer_a=BASE)
    before = code_hash("producer_a")
    (folder / "producer_a.py").write_text(text + "\n" * 50)
    assert (code_hash("producer_a") == before) is same
    assert code_closure("producer_a")[-1] == "producer_a"


def test_return_none_differs_from_return(folder: Path) -> None:
    _package(folder, producer_b="def f():\n    return None\n", producer_c="def f():\n    return\n")
    left, right = code_hash("producer_b"), code_hash("producer_c")
    assert left and right and left != right


def test_closure_follows_reexports_and_leaves_the_store_out() -> None:
    closure = code_closure("k3repro.probes.osl_sweep")
    assert "k3repro.client._table" in closure and "k3repro.probes.osl_sweep" in closure
    assert "k3repro.client" not in closure and not any(name.startswith("k3repro.store") for name in closure)
    assert not any(name.startswith("k3repro.probes.envelope") for name in closure)


def test_relative_imports_and_submodules() -> None:
    assert code_closure("k3repro.units") == [
        "k3repro.units", "k3repro.units.quantity", "k3repro.units.rounding", "k3repro.units.stats",
    ]  # fmt: skip


def test_unknown_module_has_no_hash() -> None:
    assert code_hash("nowhere.at_all") == code_hash("__main__") == ""
