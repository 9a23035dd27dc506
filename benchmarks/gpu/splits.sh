#!/bin/bash
# splits.sh SITE: the one change to vLLM 0.26.0. K3_SPLITS forces the KV splits of the Triton MLA decode kernel, which is what
# K3_MLA_SINGLE_SPLIT of the launch recipe asks for with one; without the variable nothing changes.
set -euo pipefail
python3 - "${1:?folder that holds vllm}/vllm/v1/attention/backends/mla/triton_mla.py" <<'PY'
import sys
from pathlib import Path
path, before = Path(sys.argv[1]), "    return min(ideal_splits, max_splits)\n"
text = path.read_text()
assert text.count(before) == 1, "not vLLM 0.26.0, or changed already"
path.write_text(text.replace(before, "    return int(__import__('os').environ.get('K3_SPLITS') or min(ideal_splits, max_splits))\n"))
PY
