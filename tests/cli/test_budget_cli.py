"""`k3repro budget`: the JSON that the docs bind, its bars, and one sentence for every kind of bad input."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from k3repro import spec as spec_module
from k3repro.budget import write_fixture
from k3repro.cli import main, root
from k3repro.errors import InputError
from k3repro.spec import load_model


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(root, ["budget", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["budget", *arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return int(stopped.value.code or 0), captured.err


@pytest.mark.parametrize(
    ("platform", "blocks", "tokens", "longest"),
    [("mi300x", 163, 916_875, 915_840), ("mi325x", 502, 2_836_158, 2_868_480)],
)
def test_k3_without_a_file(platform: str, blocks: int, tokens: int, longest: int) -> None:
    answer = run("--model", "kimi-k3", "--platform", platform)
    assert answer["tensors"] == 497_220
    assert answer["total_bytes"] == sum(answer["bytes"].values()) == 1_560_838_244_864
    assert {
        "routed_experts",
        "kda",
        "mla",
        "shared_experts",
        "latent",
        "router",
        "dense",
        "norms",
        "embeddings",
        "vision",
    } <= set(answer["bytes"])
    kv = answer["kv"]
    assert (kv["block_tokens"], kv["pool_blocks"], kv["tokens"], kv["max_request_tokens"]) == (
        5760,
        blocks,
        tokens,
        longest,
    )
    assert [plan["tp"] for plan in answer["layouts"]] == [1, 2, 4, 8]
    assert kv["lines"][0] == f"GPU KV cache size: {tokens:,} tokens"


def test_options_reach_the_law() -> None:
    kv = run("--platform", "mi325x", "--prefix-caching")["kv"]
    assert kv["tokens"] == 2_788_888 and kv["terms"]["mode"] == "align"
    kv = run("--platform", "mi325x", "--max-model-len", "32768")["kv"]
    assert kv["tokens"] == 1_827_726
    kv = run("--platform", "mi300x", "--tp", "8", "--kv-dtype", "bf16", "--pool", "20GiB")["kv"]
    assert (kv["block_tokens"], kv["launch"]["dp"]) == (768, 2)
    kv = run("--platform", "mi300x", "--engine", "vllm==0.28.0")["kv"]
    assert len(kv["lines"]) == 1
    assert [plan["tp"] for plan in run("--platform", "mi300x", "--tp", "4")["layouts"]] == [4]


def test_headers_of_a_fixture(tmp_path: Path) -> None:
    result = CliRunner().invoke(root, ["budget", "--model", "gpt-oss-120b", "--write-fixture", str(tmp_path)])
    assert result.exit_code == 0 and "header-only" in result.output
    told = run("--headers", str(tmp_path), "--model", "gpt-oss-120b", "--platform", "mi300x")
    assert told["tensors"] == 687 and told["bytes"]["routed_experts"] == 60_993_699_840
    untold = run("--headers", str(tmp_path))
    assert untold["bytes"] == told["bytes"] and untold["kv"] is None and "config.json" in untold["reason"]


def test_a_config_beside_the_headers_is_read(tmp_path: Path) -> None:
    write_fixture(load_model("qwen2.5-7b"), tmp_path, shards=2)
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "model_type": "qwen2",
                "num_hidden_layers": 28,
                "hidden_size": 3584,
                "num_attention_heads": 28,
                "num_key_value_heads": 4,
                "vocab_size": 152064,
                "max_position_embeddings": 32768,
            }
        )
    )
    answer = run("--headers", str(tmp_path), "--platform", "mi300x", "--pool", "1GB")
    assert answer["kv"]["terms"]["pool_block_bytes"] == 16 * 57_344


def test_without_a_platform_the_smallest_pools_are_shown() -> None:
    found = run("--model", "kimi-k3")["smallest_nodes_per_pool"]
    assert (found["mi300x"], found["mi325x"], found["mi355x"], found["b300"]) == (2, 1, 1, 1)
    assert found["h100"] > found["h200"] > found["b300"]


def test_tables_for_people_fit_eighty_columns() -> None:
    result = CliRunner().invoke(root, ["budget", "--platform", "mi300x"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert "1,446,456,066,048" in result.output and "fits only just" in result.output
    assert "GPU KV cache size: 916,875 tokens" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "gpt-9"), "no model named"),
        (("--platform", "mi999"), "no platform named"),
        (("--platform", "mi300x", "--tp", "7"), "TP7 does not divide"),
        (("--platform", "mi300x", "--tp", "0"), "at least 1"),
        (("--platform", "mi300x", "--pool", "1MB"), "holds no request"),
        (("--platform", "mi300x", "--pool", "a lot"), "not a size"),
        (("--platform", "mi300x", "--kv-dtype", "fp2"), "KV dtype"),
        (("--platform", "mi300x", "--engine", "vllm==9.9"), "not known"),
        (("--headers", "/nonexistent"), "no such file"),
        (("--resident", "int3", "--platform", "mi300x"), "weight format"),
        (("--platform", "mi300x", "--overhead", "200GiB"), "does not fit"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    code, message = fails(capsys, *arguments)
    assert code == 2 and words in message and message.startswith("k3repro: ") and message.count("\n") == 1


def test_a_truncated_header_is_exit_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes((10**6).to_bytes(8, "little") + b"{}")
    code, message = fails(capsys, "--headers", str(path))
    assert code == 2 and "truncated" in message


def test_unreachable_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = fails(capsys, "--headers", "http://127.0.0.1:9/model.safetensors.index.json")
    assert code == 3 and "cannot be read" in message


def test_whether_the_pool_fits_beside_the_weights() -> None:
    """13 GB on MI300X fits with the smaller heap that was published, if all dense tensors shard."""
    published = run("--model", "kimi-k3", "--platform", "mi300x")["kv"]["room"]
    assert (published["fits"], published["heap"]) == ("tight", 8 * 2**30)
    assert run("--model", "kimi-k3", "--platform", "mi300x", "--heap", "16GiB")["kv"]["room"]["fits"] == "no"
    assert run("--model", "kimi-k3", "--platform", "mi300x", "--heap", "0GiB")["kv"]["room"]["heap"] == 0
    assert run("--model", "kimi-k3", "--platform", "mi325x")["kv"]["room"]["fits"] == "yes"
    assert run("--model", "kimi-k3", "--platform", "mi325x", "--pool", "300GiB")["kv"]["room"]["fits"] == "no"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nodes", "0"),
        ("--nodes", "-1"),
        ("--tp", "3", "--dp", "5"),
        ("--tp", "16", "--nodes", "1", "--dp", "9", "--pp", "99"),
    ],
)
def test_layouts_that_no_node_has(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, message = fails(capsys, "--model", "kimi-k3", "--platform", "mi300x", *arguments)
    assert code == 2 and message


QWEN36 = {
    "model_type": "qwen3_5_text", "num_hidden_layers": 64, "hidden_size": 5120, "num_attention_heads": 24,
    "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 17408, "vocab_size": 248320,
    "max_position_embeddings": 262144, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "dtype": "bfloat16",
}  # fmt: skip
LLAMA70 = {
    "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


def config(folder: Path, fields: dict[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(fields))
    return str(folder)


def test_a_hybrid_says_that_its_slots_exceed_its_state_blocks(tmp_path: Path) -> None:
    ask = ("--model", config(tmp_path, QWEN36), "--platform", "h100", "--tp", "1", "--max-model-len", "8192")
    kv = run(*ask, "--pool", str(313 * 51_380_224), "--max-num-seqs", "1024")["kv"]
    assert kv["pool_blocks"] == 313
    assert "max_num_seqs (1024) exceeds available Mamba cache blocks (313)" in kv["refusals"][0]
    assert run(*ask, "--pool", str(313 * 51_380_224), "--max-num-seqs", "313")["kv"]["refusals"] == []
    assert "engine's default" in run(*ask)["kv"]["refusals"][0]


def test_a_pool_below_one_request_is_refused_in_the_engines_words(tmp_path: Path) -> None:
    ask = ("--model", config(tmp_path, LLAMA70), "--platform", "h100", "--tp", "4", "--pool", "4GiB")
    kv = run(*ask)["kv"]
    assert "max seq len (131072), 10.00 GiB KV cache is needed" in kv["refusals"][0]
    assert "(4.00 GiB)" in kv["refusals"][0] and "length is 52416" in kv["refusals"][0]


def test_no_heap_of_another_model(tmp_path: Path) -> None:
    """70B in bf16 at TP4 on H100: 79.65 GiB x 0.92 less 32.85 GiB of weights."""
    answer = run("--model", config(tmp_path, LLAMA70), "--platform", "h100", "--tp", "4")
    assert answer["terms"]["heap"] == 0 and answer["kv"]["room"]["heap"] == 0
    assert round(answer["kv"]["pool_bytes"] / 2**30, 1) == 40.4
    assert "upper bound" in answer["kv"]["pool_source"]
    assert answer["kv"]["launch"]["dp"] == 2, "all eight GPUs of the node count"


def test_the_smallest_tp_that_starts_is_chosen(tmp_path: Path) -> None:
    answer = run("--model", config(tmp_path, LLAMA70), "--platform", "h100")
    assert answer["kv"]["launch"]["tp"] == 4 and answer["kv"]["refusals"] == []
    reasons = {plan["tp"]: plan["starts"] for plan in answer["layouts"]}
    assert reasons[1] is None and "max seq len" in reasons[2][0] and reasons[4] == []


def test_every_command_derives_the_same_pool(tmp_path: Path) -> None:
    ask = ("--model", config(tmp_path, LLAMA70), "--platform", "h200", "--tp", "2")
    pool = run(*ask)["kv"]["pool_bytes"]
    result = CliRunner().invoke(root, ["capacity", "nmax", *ask, "--context", "8K", "--json"])
    assert json.loads(result.stdout)["launch"]["pool_bytes"] == pool


def test_k3_over_two_nodes_as_launched_in_public() -> None:
    """Two H200 nodes at TP16, vLLM 0.27.0, "0.82 GiB": 82 blocks, 30,062 tokens, 0.88 GiB for 32,768."""
    ask = ("--platform", "h200", "--tp", "16", "--kv-dtype", "bf16", "--engine", "vllm==0.27.0")
    kv = run(*ask, "--pool", "0.82 GiB", "--max-model-len", "29696", "--max-num-seqs", "64")["kv"]
    assert (kv["tokens"], kv["launch"]["nodes"], kv["launch"]["dp"]) == (30_062, 2, 1)
    assert 82 in kv["pool_blocks_if_rounded"] and kv["refusals"] == []
    refused = run(*ask, "--pool", "0.82GiB", "--max-model-len", "32768", "--max-num-seqs", "64")["kv"]
    assert "0.88 GiB KV cache is needed" in refused["refusals"][0] and "30336" in refused["refusals"][0]


def test_pipeline_stages_over_three_nodes() -> None:
    answer = run("--platform", "mi300x", "--tp", "8", "--pp", "3")
    (plan,) = answer["layouts"]
    assert (plan["nodes"], plan["tp"], plan["pp"], plan["dp"]) == (3, 8, 3, 1)
    assert answer["kv"]["terms"]["stages"] == [7_077_888, 7_077_888, 7_962_624]
    derived = run("--platform", "h200", "--tp", "8", "--pp", "3")
    law, room = derived["kv"]["terms"], derived["kv"]["room"]["low"]
    assert derived["kv"]["pool_bytes"] % law["pool_block_bytes"] == 0
    assert derived["kv"]["pool_bytes"] <= room + law["pool_block_bytes"]


def test_platform_files_are_taken(tmp_path: Path) -> None:
    text = (Path(spec_module.__file__).parent / "data/platforms/h100.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('name = "h100"', 'name = "mine"').replace("85520809984", "42000000000"))
    answer = run("--model", config(tmp_path, LLAMA70), "--platform", str(path), "--tp", "8")
    assert answer["platform"] == "mine" and answer["layouts"][0]["per_gpu"]["hbm"] == 42_000_000_000


def test_an_incomplete_platform_file_names_its_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n[sources]\na = "b"\n[platform]\nhbm_bytes = [1, "a"]\n')
    code, message = fails(capsys, "--platform", str(path))
    assert code == 2 and "'gpus_per_node' is missing" in message and "__init__" not in message


def hub(folder: Path, **fields: object) -> str:
    """A Hub config.json of a small mixture of experts."""
    config = {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096,
        "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
        "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "intermediate_size": 12288, **fields,
    }  # fmt: skip
    file = Path(tempfile.mkdtemp(dir=folder)) / "config.json"
    file.write_text(json.dumps(config))
    return str(file)


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(root, ["budget", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def test_fp8_experts_cut_through_their_blocks_need_expert_parallel(tmp_path: Path) -> None:
    """vllm#17569: Qwen3-235B-A22B-FP8 at TP8 refuses to start without it, at TP4 it starts."""
    model = hub(tmp_path, quantization_config=FP8)
    said = shown("--model", model, "--platform", "h100", "--tp", "8")
    assert "= 192 is not divisible by weight quantization block_n = 128" in said
    for tp, more in (("4", {"quantization_config": FP8}), ("8", {})):
        said = shown("--model", hub(tmp_path, **more), "--platform", "h100", "--tp", tp, "--dp", "1")
        assert "not divisible" not in said and "--enable-expert-parallel" in said


def test_dp_ranks_are_those_that_were_asked_for(tmp_path: Path) -> None:
    model = hub(tmp_path, num_hidden_layers=8)
    given = ("--model", model, "--platform", "h100", "--tp", "1")
    one, eight = (run(*given, "--dp", dp)["layouts"][0] for dp in ("1", "8"))
    assert (one["dp"], one["ep"], eight["dp"], eight["ep"]) == (1, 1, 8, 8)
    assert one["per_gpu"]["experts_resident"] == 8 * eight["per_gpu"]["experts_resident"]
    with pytest.raises(InputError, match="hold DP8"):
        shown(*given, "--dp", "9", "--nodes", "1")


def test_a_budget_that_would_not_start_prints_no_lines_and_says_what_would(tmp_path: Path) -> None:
    said = shown("--model", hub(tmp_path), "--platform", "h100")
    assert "fewest nodes that start" not in said and "the engine will print" in said
    given = ("--model", hub(tmp_path), "--platform", "h100", "--nodes", "1", "--tp", "8")
    said = shown(*given, "--max-model-len", "500000")
    assert "the engine will print" not in said and "it would stop before printing" in said
    assert "fewest nodes that start: 2" in said


def test_what_budget_imports_is_what_it_needs() -> None:
    """The database, NumPy and TLS cost more to import than the budget to compute."""
    command = "import sys, k3repro.cli.budget; print({'duckdb', 'numpy', 'ssl'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
