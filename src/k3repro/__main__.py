"""``python -m k3repro``: the command `k3repro`."""

from k3repro.cli import main

main()
