"""What must not be in the repository: registry hosts, machine paths, unlocked or drifting requirements."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
# In pieces, so that this file passes its own test.
HOSTS = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "deb." + "debian.org",
    "security." + "debian.org",
]
PATHS = re.compile(
    r"(?<![\w.<>~|-])/(?:root|work|opt)/(?!vllm_cache\b)[a-z]"
)  # that one is inside the container


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def texts() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        raw = path.read_bytes()
        if b"\0" not in raw[:8192]:
            found.append((path.relative_to(ROOT), raw.decode("utf-8", "replace")))
    return found


def pins(path: Path) -> dict[str, str]:
    return {name.lower().replace("_", "-"): version for name, version in _PIN.findall(path.read_text())}


def test_no_file_names_a_registry_host() -> None:
    wrong = [f"{path}: {host}" for path, text in texts() for host in HOSTS if host in text]
    assert not wrong


def test_no_file_names_a_path_of_one_machine() -> None:
    # The redaction tests have such paths as their input.
    scanned = [(path, text) for path, text in texts() if path.name != "test_redact.py"]
    wrong = [f"{path}: {found.group()}" for path, text in scanned if (found := PATHS.search(text))]
    assert not wrong


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_pins_and_hashes_everything_and_names_no_source(path: Path) -> None:
    text = path.read_text()
    for word in ("://", "--index-url", "--extra-index-url", "--find-links", "--trusted-host", " @ "):
        assert word not in text
    for entry in re.split(r"\n(?=[A-Za-z])", text.split("\n", 1)[1].strip()):
        assert _PIN.match(entry), entry[:60]
        assert "--hash=sha256:" in entry, entry[:60]


def test_the_scans_find_what_they_look_for() -> None:
    assert PATHS.search("see /ro" + "ot/thing")
    assert not PATHS.search("https://host/work/x")
    assert _PIN.findall("numpy==2.4.6 \\\n    --hash=sha256:00") == [("numpy", "2.4.6")]


def test_the_locks_agree_with_each_other() -> None:
    names = {path.name for path in LOCKS}
    assert names == {
        "bootstrap.txt",
        "browser.txt",
        "core.txt",
        "engine.txt",
        "report.txt",
        "router.txt",
        "test.txt",
    }
    every: dict[str, set[str]] = {}
    for path in LOCKS:
        if path.name in ("router.txt", "engine.txt"):
            continue  # environments of their own
        for name, version in pins(path).items():
            every.setdefault(name, set()).add(version)
    # A universal lock may fork by Python version; the forks have to be the same everywhere.
    assert not [name for name, versions in every.items() if len(versions) > 3]
    core, report, test = (
        set(pins(ROOT / "requirements" / f"{name}.txt")) for name in ("core", "report", "test")
    )
    assert core < report < test
    assert "torch" not in test


def test_every_declared_dependency_is_locked() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = document["project"]["optional-dependencies"]
    wanted = {
        "core": document["project"]["dependencies"],
        "report": [*extras["lab"], *extras["site"]],
        "test": [
            *(item for group in extras.values() for item in group),
            *document["dependency-groups"]["test"],
        ],
        "browser": document["dependency-groups"]["browser"],
    }
    for name, requirements in wanted.items():
        locked = pins(ROOT / "requirements" / f"{name}.txt")
        missing = [item for item in requirements if re.split(r"[<>=!~;\[ ]", item)[0].lower() not in locked]
        assert not missing, f"requirements/{name}.txt lacks {missing}: run make lock"


def test_the_makefile_has_the_targets_the_help_names() -> None:
    text = (ROOT / "Makefile").read_text()
    for target in re.findall(r'echo "make ([a-z-]+) ', text):
        assert re.search(rf"^{target}:", text, re.MULTILINE), target


def test_the_core_installs_under_150_mb() -> None:
    sizes = {name: _installed_bytes(name) for name in pins(ROOT / "requirements" / "core.txt")}
    total = sum(sizes.values()) / 1e6
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:4]
    assert len(sizes) >= 8
    assert 50 < total < 150, f"{total:.0f} MB: {largest}"


def _installed_bytes(name: str) -> int:
    """Bytes of an installed distribution, without compiled caches; 0 when it is for another platform."""
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        return 0
    paths = [Path(str(file.locate())) for file in files if "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in paths if path.is_file())


def test_what_tests_share_can_be_imported_and_has_one_name() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    shared = [
        path for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith(("test_", "conftest")) and "new_study" not in path.parts
    ]  # fmt: skip
    names = [path.name for path in shared]
    assert len(names) == len(set(names))
    folders = {str(path.parent.relative_to(ROOT)) for path in shared}
    assert folders <= set(options["pythonpath"])


_PATIENCE_S = 600  # for what has to come: a busy machine is slow, and only a hang takes longer
_LIVE = {"cluster", "real", "real_engine", "real_gpu", "notebooks"}  # machines and engines of their own


def _impatient(text: str) -> Iterator[int]:
    """Lines that fail when something takes seconds longer: limits of waiting, clocks that are compared."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            limits = [item.value for item in node.keywords if item.arg == "timeout"]
            limits += node.args[-1:] if name in {"wait", "join", "result", "wait_for"} else []
            yield from (limit.lineno for limit in limits if _short(limit))
        elif isinstance(node, ast.BinOp) and _is_clock(node.left) and _short(node.right):
            yield node.lineno
        elif isinstance(node, ast.Assert):
            spans = [
                item
                for item in ast.walk(node)
                if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Sub)
            ]
            yield from (item.lineno for item in spans if _is_clock(item.left))


def _short(limit: ast.expr) -> bool:
    """A number of seconds that a busy machine may need; under one it paces a loop."""
    return (
        isinstance(limit, ast.Constant)
        and isinstance(limit.value, int | float)
        and 1 <= limit.value < _PATIENCE_S
    )


def _is_clock(node: ast.expr) -> bool:
    clocks = {"monotonic", "perf_counter", "time"}
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in clocks


def test_no_result_hangs_on_how_busy_the_machine_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if not _LIVE & set(path.parts) and path.name != Path(__file__).name
        for line in _impatient(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "assert process.wait(20) == 0",
        "subprocess.run(command, timeout=30)",
        "until = time.monotonic() + 60",
        "assert time.perf_counter() - began < limit",
        "await asyncio.wait_for(reader.read(), 5)",
    ],
)
def test_impatience_is_found(text: str) -> None:
    assert [*_impatient(text)] == [1]
