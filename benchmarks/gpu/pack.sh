#!/bin/bash
# pack.sh OUT: vLLM 0.26.0 for CUDA 13 and Python 3.12 as parts of at most 55 MB, for a machine without a registry that already
# has PyTorch 2.11 and Triton 3.6. Needs uv and zstd; about five minutes. unpack.sh joins the parts.
set -euo pipefail
out=${1:?folder}; work=$(mktemp -d); mkdir -p "$out/kit"
platform="--python-version 3.12 --python-platform x86_64-manylinux_2_31 --only-binary :all: --quiet"
echo vllm==0.26.0 | uv pip compile $platform - --no-header --no-annotate -o "$work/closure.txt"
# Left out: what such a machine has, and what is large and imported only when a feature asks for it.
present='accelerate|aiohttp|aiosignal|anyio|attrs|certifi|charset-normalizer|click|cloudpickle|einops|filelock|frozenlist|fsspec|h11|hf-xet|httpcore|httpx|huggingface-hub|idna|jinja2|llvmlite|markupsafe|mpmath|msgpack|multidict|networkx|ninja|numba|numpy|opencv-python-headless|packaging|pillow|prometheus-client|propcache|protobuf|psutil|py-cpuinfo|pygments|pyyaml|regex|requests|rich|safetensors|scipy|sentencepiece|setuptools|six|sympy|tabulate|tiktoken|tokenizers|torch|torchaudio|torchvision|tqdm|transformers|triton|typer|typing-extensions|urllib3|uvloop|yarl'
grep -v -i -E "^($present|nvidia-[a-z0-9-]*|cuda-tile|tilelang|torchcodec|supervisor|z3-solver|humming-kernels|sentry-sdk)(\[[a-z,]*\])?==" \
  "$work/closure.txt" > "$work/wanted.txt"
uv pip install $platform --no-deps --target "$work/site" -r "$work/wanted.txt"
rm -f "$work/site/vllm/vllm-rs" "$work/site/vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"   # the Rust server; Hopper uses the third FlashAttention
tar -C "$work/site" -cf - . | zstd -q -11 -T2 --long=27 | split -b 55000000 -d --additional-suffix=.part - "$work/p"
number=0
for part in "$work"/p*.part; do number=$((number + 1)); mkdir -p "$out/p$number"; mv "$part" "$out/p$number/"; done
cp "$(command -v zstd)" "$out/kit/"
ldd "$out/kit/zstd" | awk '/=>/ {print $3}' | grep -E 'zstd|lzma|lz4|libz\.' | xargs -r -I{} cp -L {} "$out/kit/"
rm -rf "$work"; du -sm "$out"/*
