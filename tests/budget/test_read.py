"""Reading a checkpoint's headers: folder, index, single file, HTTP; and every way an index can lie."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from k3repro.budget import checkpoint_of_headers, checkpoint_of_model, read_headers, write_fixture
from k3repro.errors import InputError, TargetError
from k3repro.shards import INDEX
from k3repro.spec import load_model

MODEL = load_model("qwen2.5-7b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checkpoint")
    write_fixture(MODEL, path, shards=4)
    return path


class Server:
    """A file server in a thread that counts requests and can be told not to honour ranges."""

    def __init__(self, root: Path) -> None:
        self.root, self.requests, self.ranges = root, [], True  # type: ignore[var-annotated]
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._start())
        self._ready.set()
        self.loop.run_forever()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/{name:.*}", self._get)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def _get(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"].removeprefix("m/")
        self.requests.append((name, request.headers.get("Range")))
        path = self.root / name
        if not path.is_file():
            return web.Response(status=404)
        if not self.ranges:
            return web.Response(body=path.read_bytes())
        return web.FileResponse(path)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.runner.cleanup(), self.loop).result(600)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(600)
        self.loop.close()


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    running = Server(folder)
    yield running
    running.close()


def test_fixture_reads_back_as_the_spec_implies(folder: Path) -> None:
    read = checkpoint_of_headers(str(folder), MODEL)
    implied = checkpoint_of_model(MODEL)
    assert read.inventory == implied.inventory and read.shards == 4
    assert checkpoint_of_headers(str(folder / INDEX)).inventory.bytes == implied.inventory.bytes


def test_a_folder_without_an_index_and_a_single_file(folder: Path, tmp_path: Path) -> None:
    shards = sorted(folder.glob("*.safetensors"))
    for shard in shards:
        (tmp_path / shard.name).write_bytes(shard.read_bytes())
    assert checkpoint_of_headers(str(tmp_path)).inventory.tensors == 339
    assert len(list(read_headers(str(shards[0])))) == 1


def test_http_in_two_reads_at_most(server: Server) -> None:
    local = checkpoint_of_headers(str(server.root), MODEL)
    for source in (f"{server.url}/m", f"{server.url}/m/{INDEX}?token=secret"):
        server.requests.clear()
        remote = checkpoint_of_headers(source, MODEL)
        assert remote.inventory == local.inventory
        shards = [name for name, _ in server.requests if name.endswith(".safetensors")]
        assert max(map(shards.count, shards)) <= 2 and len(set(shards)) == 4
        assert all(wanted for name, wanted in server.requests if name.endswith(".safetensors"))


def test_a_long_header_takes_a_second_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3repro.budget._http.FIRST_READ", 64)
    assert checkpoint_of_headers(f"{server.url}/m", MODEL).inventory.tensors == 339
    assert len([name for name, _ in server.requests if name.endswith(".safetensors")]) == 8


def test_a_server_without_ranges_is_refused(server: Server) -> None:
    server.ranges = False
    with pytest.raises(TargetError, match="ignores range requests"):
        checkpoint_of_headers(f"{server.url}/m")


def test_not_found_and_unreachable(server: Server) -> None:
    with pytest.raises(TargetError, match="HTTP 404"):
        checkpoint_of_headers(f"{server.url}/absent/{INDEX}")
    with pytest.raises(TargetError, match="cannot be read") as caught:
        checkpoint_of_headers("http://user:secret@127.0.0.1:9/m?token=secret")
    assert "secret" not in str(caught.value)


def _index(folder: Path, tmp_path: Path) -> tuple[Path, dict[str, dict[str, str]]]:
    for shard in folder.glob("*.safetensors"):
        (tmp_path / shard.name).write_bytes(shard.read_bytes())
    return tmp_path / INDEX, json.loads((folder / INDEX).read_text())


def test_an_index_naming_a_missing_shard(folder: Path, tmp_path: Path) -> None:
    path, index = _index(folder, tmp_path)
    index["weight_map"]["extra"] = "model-00009-of-000004.safetensors"
    path.write_text(json.dumps(index))
    with pytest.raises(InputError, match=r"missing shard.*model-00009"):
        checkpoint_of_headers(str(tmp_path))


def test_an_index_that_lies(folder: Path, tmp_path: Path) -> None:
    path, index = _index(folder, tmp_path)
    shards = sorted(set(index["weight_map"].values()))
    cases = {
        "the index says": {"model.norm.weight": shards[0]},
        "is not in": {"absent.weight": shards[1]},
    }
    for words, change in cases.items():
        path.write_text(json.dumps({**index, "weight_map": {**index["weight_map"], **change}}))
        with pytest.raises(InputError, match=words):
            checkpoint_of_headers(str(tmp_path))
    path.write_text(json.dumps({**index, "metadata": {"total_size": 1}}))
    with pytest.raises(InputError, match="claims 1 bytes"):
        checkpoint_of_headers(str(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"weight_map": {}}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "../x.safetensors"}}',
    ],
)
def test_what_is_no_index(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(InputError):
        checkpoint_of_headers(str(tmp_path))


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no .safetensors file"):
        checkpoint_of_headers(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        checkpoint_of_headers(str(tmp_path / "absent"))


def test_one_tensor_in_two_shards(folder: Path, tmp_path: Path) -> None:
    shard = min(folder.glob("*.safetensors"))
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).write_bytes(shard.read_bytes())
    with pytest.raises(InputError, match="another shard too"):
        checkpoint_of_headers(str(tmp_path))


def test_a_sparse_fixture_is_a_real_safetensors_file(tmp_path: Path) -> None:
    from safetensors import safe_open

    files = write_fixture(load_model("qwen2.5-7b"), tmp_path, shards=2, sparse=True)
    names = set()
    for file in files:
        with safe_open(file, "np") as opened:
            names |= set(opened.keys())
    assert len(names) == 339
    assert checkpoint_of_headers(str(tmp_path)).inventory.bytes == 15_231_233_024


def test_a_fixture_does_not_overwrite(folder: Path) -> None:
    with pytest.raises(InputError, match="already holds"):
        write_fixture(MODEL, folder)


@pytest.mark.parametrize("total", ["Infinity", "-Infinity", "NaN", "-1", "1e30", "1" + 30 * "0"])
def test_an_index_with_an_absurd_total(tmp_path: Path, total: str) -> None:
    index = f'{{"metadata": {{"total_size": {total}}}, "weight_map": {{"a": "s.safetensors"}}}}'
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(InputError, match="claims a size"):
        checkpoint_of_headers(str(tmp_path))


def test_an_index_with_a_name_that_no_disk_holds(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "x" * 5000}}))
    with pytest.raises(InputError, match="no file name"):
        checkpoint_of_headers(str(tmp_path))
