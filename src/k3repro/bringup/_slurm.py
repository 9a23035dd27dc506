"""Options of salloc, sbatch and srun for a cluster file."""

from __future__ import annotations

from k3repro.bringup._cluster import Cluster


def slurm_options(cluster: Cluster, *, gpus: int = 8) -> list[str]:
    """What salloc and sbatch are asked for: four whole nodes with their GPUs and all their memory."""
    options = ["--nodes=4", "--exclusive", f"--mem={cluster.memory}"]
    if cluster.gres != "none" and not (cluster.simulated and not cluster.gres):
        options.append(f"--gres={cluster.gres or f'gpu:{gpus}'}")
    if not cluster.unnamed:
        options.append(f"--nodelist={','.join(node.host for node in cluster.nodes)}")
    for name in ("account", "qos", "reservation", "partition"):
        if value := getattr(cluster, name):
            options.append(f"--{name}={value}")
    return [*options, *cluster.options, f"--time={cluster.time_minutes}"]


def address_command(interface: str) -> list[str]:
    """What a node that Slurm chose is asked for its address."""
    return ["ip", "-4", "-o", "addr", "show", "dev", interface]


def step_options(cluster: Cluster) -> list[str]:
    """What every long step asks: no PMI, no pinning to one core; and of pyxis the image with its mounts."""
    plain = ["--mpi=none", "--cpu-bind=none"]
    if cluster.runtime != "pyxis":
        return plain
    folders = [(cluster.model, ":ro"), (cluster.logs, ""), (cluster.cache, "")]
    mounts = [f"{folder}:{folder}{mode}" for folder, mode in folders]
    mounts += [f"{mount.host}:{mount.container}:ro" for mount in cluster.userspace]
    return [
        *plain, f"--container-image={pyxis_image(cluster)}", f"--container-mounts={','.join(mounts)}",
        "--no-container-mount-home", "--no-container-entrypoint", "--container-writable",
    ]  # fmt: skip


def step(cluster: Cluster, name: str) -> list[str]:
    """The srun of a long step on a node, inside the image where pyxis starts it."""
    return ["srun", "--overlap", "-N1", "-n1", *step_options(cluster), "-w", name]


def pyxis_image(cluster: Cluster) -> str:
    """The image as enroot writes it: a squash file, or the registry apart by a #."""
    first, slash, rest = cluster.image.partition("/")
    image = f"{first}#{rest}" if slash and ("." in first or ":" in first) else cluster.image
    return f"{image}@{cluster.digest}" if cluster.digest and not image.startswith("/") else image
