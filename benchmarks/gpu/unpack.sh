#!/bin/bash
# unpack.sh PARTS SITE: join the parts of pack.sh into SITE (20 s, 700 MB), and make the number of KV splits settable.
set -euo pipefail
parts=${1:?folder with p1, p2, ... and kit}; site=${2:?target}; kit=$parts/kit
mkdir -p "$site"
cat "$parts"/p[0-9]*/*.part | LD_LIBRARY_PATH=$kit "$kit/zstd" -d --long=27 -c | tar -C "$site" -xf -
# The one change to vLLM: K3_SPLITS forces the KV splits of the Triton MLA decode kernel (K3_MLA_SINGLE_SPLIT of the
# launch recipe asks for one). Without the variable nothing changes.
python3 - "$site/vllm/v1/attention/backends/mla/triton_mla.py" <<'PY'
import sys
from pathlib import Path
path, before = Path(sys.argv[1]), "    return min(ideal_splits, max_splits)\n"
text = path.read_text()
assert text.count(before) == 1, "not vLLM 0.26.0"
path.write_text(text.replace(before, "    return int(__import__('os').environ.get('K3_SPLITS') or min(ideal_splits, max_splits))\n"))
PY
