#!/bin/bash
# unpack.sh PARTS SITE: join the parts of pack.sh into SITE (20 s, 700 MB), and make the number of KV splits settable.
set -euo pipefail
parts=${1:?folder with p1, p2, ... and kit}; site=${2:?target}; kit=$parts/kit
mkdir -p "$site"
cat "$parts"/p[0-9]*/*.part | LD_LIBRARY_PATH=$kit "$kit/zstd" -d --long=27 -c | tar -C "$site" -xf -
bash "$(dirname "$0")/splits.sh" "$site"
