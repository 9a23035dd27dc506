"""What the tests of this folder run on: hosts, and cluster files for twin engines on them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = HERE / "cluster.sh"


@dataclass(frozen=True)
class Hosts:
    """The folder with keys, known hosts and Slurm's configuration."""

    folder: Path
    router: str
    k3repro: str = str(Path(sys.prefix) / "bin" / "k3repro")

    def cluster_file(
        self, folder: Path, scheduler: str, *, extra: str = "", platform: str = "mi325x"
    ) -> Path:
        """A cluster file for twin engines on these hosts, or on this machine for "local"."""
        local = scheduler == "local"
        address = "127.0.0.{}" if local else "10.78.0.{}"
        offset = 20 if local else 0
        roles = ("prefill_master", "prefill_worker", "decode_master", "decode_worker")
        nodes = "\n".join(
            f'{role} = {{ host = "k3t{i}", address = "{address.format(i + offset)}" }}'
            for i, role in enumerate(roles, start=1)
        )
        keys = f'known_hosts = "{self.folder}/known_hosts"\nidentity = "{self.folder}/id"\n'
        ssh = f'[ssh]\nuser = "root"\n{keys}'
        text = f"""name = "{folder.name.replace("_", "-")}-{scheduler}"
recipe = "kimi-k3-{platform}"
scheduler = "{scheduler}"
[nodes]
{nodes}
{ssh if scheduler == "ssh" else ""}
[fabric]
kind = "twin"
rails = []
interface = "eth0"
gid = 0
[container]
runtime = "process"
engine = ["{self.k3repro}", "twin", "engine", "serve"]
router = ["{self.router}"]
[paths]
model = "{folder}/model"
logs = "{folder}/logs"
cache = "{folder}/cache"
[twin]
simulated = true
{extra if "sysroot" in extra else ""}
[recipe_overrides]
"env.all.VLLM_HOST_IP" = "@node.address"
"env.all.K3REPRO_TWIN_PLATFORM" = "{platform}"
"env.all.K3REPRO_TWIN_TIME_SCALE" = "50"
"env.all.K3REPRO_TWIN_DRAIN_S" = "0.5"
"env.all.K3REPRO_TWIN_PING_S" = "1"
"order.alive_s" = 1
"order.poll_s" = 0.3
"order.ready_s" = 60
"order.register_s" = 30
"order.answer_s" = 60
"order.grace_s" = 10
"order.drain_s" = 10
{extra if "sysroot" not in extra else ""}
"""
        path = folder / f"{scheduler}.toml"
        path.write_text(text)
        return path
