"""Kernel census on a real trace, on names of the other vendor, and on what is no trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from k3repro.bringup.census import Kernel, census_of, read_trace
from k3repro.cli import root
from k3repro.errors import InputError

TRACE = Path(__file__).parent / "data" / "torch-trace-h200.json.gz"


def test_the_real_trace() -> None:
    # Two steps of a bf16 GEMM, an fp8 GEMM, an attention, a conversion in plain torch and a kernel named k.
    census = census_of(read_trace(TRACE))
    assert census.count("gemm", "bf16") == 2
    assert census.count("gemm", "fp8") == 2
    assert census.count("gemm") == 4
    assert census.count("attention") == 2
    assert census.four_bit == 0 and "no four-bit path ran" in census.verdict()
    assert census.unknown == {"k": 2}
    rest = census.count("elementwise") + census.count("copy") + census.count("other")
    assert rest == census.launches - 6


FP8_CACHE = "(vllm::Fp8KVCacheDataType)1"
AUTO_CACHE = "(vllm::Fp8KVCacheDataType)0"
NAMES: dict[str, tuple[str, str]] = {
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64": ("gemm", "bf16"),
    "Cijk_Alik_Bljk_F8BS_BH_Bias_SHB_HA_S_SAB_SAV_UserArgs_MT256x16x128": ("gemm", "fp8"),
    "Cijk_Alik_Bljk_HHS_BH_MT128x128x32": ("gemm", "fp16"),
    "void ck::kernel_gemm_xdl_cshuffle_v3<ck::f8_fnuz_t, ck::f8_fnuz_t>": ("gemm", "fp8"),
    "void ck::kernel_moe_gemm<ck::GridwiseMoeGemm<ck::f8_fnuz_t, ck::pk_i4_t>>": ("moe", "int4"),
    "void ck::moe_mxgemm<f4x2_pk_t>": ("moe", "mxfp4"),
    "aiter::fmoe_bf16_pertokenFp8_g1u1_vs_silu": ("moe", "fp8"),
    "flydsl_moe_stage1_a8w4_situv2": ("moe", "int4"),
    "aiter::mla_a16w16_qh16_m16x4_n16x1_coex0_mask1_bf16": ("attention", "bf16"),
    f"void vllm::concat_and_cache_mla_kernel<__hip_bfloat16, unsigned char, {FP8_CACHE}>":
        ("kv-write", "fp8"),
    f"void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16, __hip_bfloat16, {AUTO_CACHE}>":
        ("kv-write", "bf16"),
    "chunk_kda_fwd_kernel_bf16": ("recurrence", "bf16"),
    "EpDispatchInterNodeV1KernelLowLatency<__hip_bfloat16>": ("communication", "-"),
    "ncclDevKernel_Generic_1": ("communication", "-"),
    "vllm::moe::topkGatingSoftmax<float>": ("routing", "-"),
    "__amd_rocclr_copyBuffer": ("copy", "-"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_other_vendor(name: str) -> None:
    assert list(census_of([Kernel(name)]).counts) == [NAMES[name]]


def test_the_operator_decides_where_the_name_does_not() -> None:
    census = census_of(
        [Kernel("kernel_17", "aten::_scaled_mm"), Kernel("kernel_17"), Kernel("x", "aten::mm")]
    )
    assert census.count("gemm", "fp8") == 1
    assert census.unknown == {"kernel_17": 1, "x": 1}


HEAD = '"Kind","Agent_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'


def test_rocprof_csv_and_json(tmp_path: Path) -> None:
    name = "void ck::kernel_moe_gemm<ck::f8_fnuz_t, ck::pk_i4_t>(int, float*)"
    (tmp_path / "a.csv").write_text(HEAD + f'"KERNEL_DISPATCH","Agent 4","{name}",1,1000,3000\n' * 3)
    census = census_of(read_trace(tmp_path / "a.csv"))
    assert census.count("moe", "int4") == census.four_bit == 3
    assert census.times_us["moe", "int4"] == pytest.approx(6.0)
    (tmp_path / "stats.csv").write_text(f'"Name","Calls","TotalDurationNs"\n"{name}",5,10000\n')
    assert census_of(read_trace(tmp_path / "stats.csv")).four_bit == 5
    tool = {
        "kernel_symbols": [{"kernel_id": 9, "formatted_kernel_name": name}],
        "buffer_records": {"kernel_dispatch": [
            {"start_timestamp": 1, "end_timestamp": 2001, "dispatch_info": {"kernel_id": 9}}]},
    }  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps({"rocprofiler-sdk-tool": [tool]}))
    assert census_of(read_trace(tmp_path / "a.json")).four_bit == 1


NO_ARGS = b'{"traceEvents": [{"ph": "X", "args": null}]}'
EMPTY = b'{"traceEvents": []}'
CUT = TRACE.read_bytes()[:3000]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", EMPTY, b"a,b\n1,2\n", b"\x1f\x8bxx", b"[1, null]", CUT, NO_ARGS]
)
def test_what_is_no_trace_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(raw)
    with pytest.raises(InputError):
        read_trace(tmp_path / "t")


def test_a_four_bit_kernel_more_changes_the_verdict(tmp_path: Path) -> None:
    document = json.loads(gzip.decompress(TRACE.read_bytes()))
    document["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "flydsl_moe_a8w4", "dur": 5})
    (tmp_path / "t.json").write_text(json.dumps(document))
    result = CliRunner().invoke(root, ["bringup", "census", str(tmp_path / "t.json"), "--json"])
    answer = json.loads(result.output)
    assert answer["four_bit"] == 1 and answer["verdict"].startswith("a four-bit path ran")
    result = CliRunner().invoke(root, ["bringup", "census", str(TRACE)])
    assert "no four-bit path ran" in result.output
