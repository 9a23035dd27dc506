"""Each detector: a relation that holds, a slip that differs, and neighbours that it leaves alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k3repro.check import Checked

Check = Callable[..., Checked]

SPEED = (
    "| Config | tok/s/GPU | TTFT (ms) | Speedup |\n|---|---|---|---|\n| base | 1,210 | 500 "
    "| 1.0x |\n| A | 1,804 | 400 | 1.49x |\n| B | 2,400 | 300 | {} |\n"
)
CHANGE = (
    "| Metric | Before | After | Change |\n|---|---|---|---|\n| Throughput (tok/s) | 1,250 "
    "| 1,601 | +28% |\n| TTFT (ms) | 500 | 350 | -30% |\n| TPOT (ms) | 20.1 | 15.4 | {} |\n"
)
MEAN = "| Domain | Score |\n|---|---|\n| a | 3.32 |\n| b | 3.14 |\n| c | 3.12 |\n| **Average** | **{}** |\n"
PRODUCT = (
    "| Config | GPUs | tok/s/GPU | tok/s |\n|---|---|---|---|\n| "
    "A | 8 | 2,214 | 17,712 |\n| B | 16 | 2,101 | {} |\n"
)
TOTAL = (
    "| C | Input tok/s | Output tok/s | Total tok/s |\n|---|---|---|---|\n| "
    "1 | 801 | 102 | 903 |\n| 2 | 1,602 | 201 | {} |\n"
)
ORDER = "| Metric | P50 | P90 | P99 |\n|---|---|---|---|\n| TTFT (ms) | 101 | 182 | {} |\n"
BENCH = (
    "```\nSuccessful requests:                     1000\nBenchmark duration (s):          "
    "        57.81\nTotal input tokens:                      1024000\nTotal generated "
    "tokens:                  128000\nRequest throughput (req/s):     "
    "         17.30\nOutput token throughput (tok/s):         {}\n```\n"
)
SHARE = (
    "| Metric | A (1x TP8) | B | C |\n|---|---|---|---|\n| Requests in time "
    "| 26/100 | 30/100 | 70/100 |\n| Relative goodput | 0.9x | 1x | {} |\n"
)
NOTES = (
    "| Setup | TTFT (s) | Rate |\n|---|---|---|\n| base | 9.0 | 38534.8 |\n| A "
    "| 6.7 (-25.6%) | 46751.0 (+21.3%) |\n| B | 6.5 ({}) | 46910.6 (+21.7%) |\n"
)
MIXED = (
    "| Metric | Without | With | Change |\n|---|---|---|---|\n| Mean TTFT | "
    "7.85 s | 2.56 s | -67% |\n| Throughput | 3.80 req/s | 10.10 req/s | {} |\n"
)
GROUPS = (
    "| Mode | tok/s | Ratio to eager |\n|---|---|---|\n| A eager | 33.29 | 1 |\n| A compiled "
    "| 88.54 | 2.66 |\n| B eager | 32.52 | 1 |\n| B compiled | 76.88 | {} |\n"
)
BASE = (
    "| Config | Seconds | Speedup |\n|---|---|---|\n| base | "
    "{} | 1.0x |\n| A | 20.1 | 1.99x |\n| B | 10.2 | 3.92x |\n"
)
ROWS = (
    "FP8 has {} higher output throughput and 14.8% lower median ITL.\n\n| Config | Median ITL (ms) "
    "| Output tok/s |\n|---|---|---|\n| BF16 | 15.18 | 450.3 |\n| FP8 | 12.93 | 517.5 |\n"
)
STEPS = (
    "| Step | Req/s |\n|---|---|\n| base | 2.2 |\n| graphs | 8.6 (+291%) |\n| chunks | 9.3 ({}) |\n"
    "| output | 11.3 (+22%) |\n| copies | 11.7 (+4%) |\n"
)
ANSWER = (
    "| Concurrency | OSL | Mean TTFT (ms) | Mean TPOT (ms) | Mean E2EL (s) | req/s |\n"
    "|---|---|---|---|---|---|\n"
    "| 8 | 512 | 210 | 14.9 | 7.82 | 1.01 |\n| 16 | 512 | 260 | 15.3 | {} | 1.95 |\n"
    "| 32 | 512 | 300 | 16.1 | 8.53 | 3.72 |\n"
)
TOLD = (
    "```\nSuccessful requests: 100\nTotal generated tokens: 50000\nMean TTFT (ms): 1000.00\n"
    "Mean TPOT (ms): 20.00\nMean E2EL (ms): {}\n```\n"
)
PAIRED = (
    "| c | baseline req/s | static req/s | {} |\n|---|---|---|---|\n| 3 | 36.398 | 36.809 | +1.26% |\n"
    "| 6 | 69.604 | 69.337 | -0.39% |\n| 12 | 118.453 | 116.789 | -1.42% |\n"
    "| 24 | 177.795 | 180.382 | +1.49% |\n| 48 | 200.867 | 211.556 | +5.34% |\n"
)
BUCKETS = (
    "All {} buckets below share one clock.\n\n| Bucket | TFLOPS |\n|---|---|\n| attention | 447 |\n"
    "| rest | 463 |\n| {} | 461 |\n"
)
CASES = [
    ("from-to", "TPOT fell from 40 ms to 22 ms, a {} reduction.", "45%", "55%"),
    ("from-to", "TTFT dropped from 2.1 s to 1.3 s ({} lower).", "38%", "62%"),
    ("from-to", "Accuracy went from 80.0% to 84.0% (a {} gain).", "5%", "4%"),
    ("from-to", "Latency: 40 ms → 22 ms ({}).", "-45%", "-81%"),
    ("from-to", "We saw a {} improvement, from 3.0 s to 1.3 s.", "2.3x", "3.2x"),
    ("vs", "It gives {} higher throughput (27.3K vs 20.1K tok/s).", "36%", "26%"),
    ("table-baseline", SPEED, "1.98x", "2.98x"),
    ("table-baseline", SHARE, "2.3x", "2.4x"),
    ("table-change", CHANGE, "-23%", "-32%"),
    ("table-aggregate", MEAN, "3.19", "3.39"),
    ("table-product", PRODUCT, "33,616", "36,316"),
    ("table-product", TOTAL, "1,803", "1,903"),
    ("percentiles", ORDER, "190", "170"),
    ("listing", BENCH, "2214.15", "2241.15"),
    ("equation", "That makes 4 × 8 = {} GPUs.", "32", "36"),
    ("equation", "In total 16 + 8 = {}.", "24", "28"),
    ("conversion", "The weights take 70 GB ({} GiB).", "65.2", "75.2"),
    ("conversion", "It waits 1,500 ms ({} s).", "1.5", "15"),
    ("reciprocal", "Mean TPOT is 20 ms — roughly {} tokens/s.", "50", "20"),
    ("gpus", "We used three 8-GPU servers ({} GPUs in total).", "24", "32"),
    ("gpus", "It ran on 4 nodes with 8 GPUs each ({} GPUs total).", "32", "64"),
    ("degrees", "| Part | Layout |\n|---|---|\n| Decode | 1 Decode (TP2 DP4 EP = {}) |\n", "8", "6"),
    ("count", "The design separates three concepts:\n\n- a\n- b\n{}", "- c\n", "- c\n- d\n"),
    ("count", "You start three components: a "
              "prefill instance, a decode instance{}.", ", and a proxy", ", a router, and a proxy"),
    ("count", "Across {} domains it holds.\n\n| Domain | x "
              "|\n|---|---|\n| a | 1 |\n| b | 2 |\n| c | 3 |\n| d | 4 |\n", "4", "5"),
    ("shares", "Half sit at 64k+ (≈53%, with a tail) and half are short (≈{} under 64k).", "47%", "27%"),
    ("shares", "62% of them hit the cache, the remaining {} miss it.", "38%", "28%"),
    ("ranges", "GPU A holds tokens 0–50K, B {}–100K, C 100K–150K, and D 150K–200K.", "50K", "60K"),
    ("quote", "It is best on coding ({}).\n\n| Domain | Score "
              "|\n|---|---|\n| Coding | 3.32 |\n| Math | 3.14 |\n", "3.32", "3.23"),
    ("heading", "## Runner: {} Lower TPOT\n\nOn decode "
                "it improved TPOT by approximately 11%.\n", "11%", "17%"),
    ("table-note", NOTES, "-27.8%", "-37.8%"),
    ("table-change", MIXED, "2.7x", "3.7x"),
    ("table-baseline", GROUPS, "2.36", "2.63"),
    ("table-baseline", BASE, "40.0", "60.0"),
    ("annotation", "At 1 GB, A completes in 216 ms, B in 263 ms "
                   "({} slower), and C in 298 ms (38% slower).", "22%", "32%"),
    ("percent-of", "Both achieve ~49.5 GB/s ({} of the 50 GB/s line rate).", "≈99%", "≈79%"),
    ("percent-of", "Both runs are within {} of each other on throughput, "
                   "at 4,318 against 4,420.", "3%", "2%"),
    ("percent-of", "TTFT is within {} of each other (101 ms vs. 110 ms).", "9%", "5%"),
    ("vs", "It achieved ITL of ~30ms, versus ~160ms "
           "with Prefix-only — more than {} improvement.", "5×", "9×"),
    ("vs", "Cached tokens are {} times lower than uncached ones ($0.30 vs. $3.00 per million).", "10", "20"),
    ("from-to", "It raises output {}, from 3,679 to 6,281 tok/s, while latency moves.", "71%", "41%"),
    ("formula", "The size is `cc/8 + 128` ({} at cc=4096, 768 at cc=5120).", "640", "660"),
    ("formula", "With ISL/OSL = 8192/1024 we set `--max-tokens {}`, i.e. 2× ISL.", "16384", "16584"),
    ("fact", "Kimi K3 is a {} parameter model.", "2.8T", "2T"),
    ("fact", "MI355X ({} memory) holds more.", "288GB", "256GB"),
    ("fact", "gpt-oss-120b has {} active parameters.", "5.1B", "4.1B"),
    ("count", BUCKETS.replace("{}", "total").replace("total", "{}", 1), "two", "four"),
    ("fact", "Each MI300X ({} GB HBM) holds a part.", "192", "129"),
    ("headline", "---\ntitle: {} higher throughput\n---\n\nTP plateaus "
                 "at 1,863 tok/s/GPU and DCP reaches 6,091 tok/s/GPU.\n", "3×", "5×"),
    ("restatement", "Acceptance length stays essentially flat from 1K to 32K tokens (2.69 to {}).\n\nFigure "
                    "3: Acceptance length is essentially flat "
                    "from 1K to 32K tokens (2.69 to 2.65).", "2.65", "2.35"),
    ("from-to", "It builds with a {} speedup (21 s → 346 ms).", "61x", "16x"),
    ("vs", "It answers {} faster (900 ms vs 1.8 s).", "2x", "4x"),
    ("table-baseline", BASE, "40.0", "90.0"),
    ("caption", ROWS, "14.9%", "19.4%"),
    ("table-note", STEPS, "+8%", "+28%"),
    ("latency-sum", ANSWER, "8.1", "81"),
    ("littles-law", ANSWER, "8.1", "19.1"),
    ("listing", TOLD, "10900.00", "1090.00"),
    ("kv-bytes", "The KV cache of DeepSeek-V3 takes {} per token in BF16.", "70 KB", "700 KB"),
    ("weights", "The FP8 weights of DeepSeek-V3 take {}.", "690 GB", "1,380 GB"),
    ("peak", "Our kernel reaches {} of HBM on an H100.", "3.1 TB/s", "4.1 TB/s"),
    ("peak", "The BF16 kernel reaches {} on an H100.", "750 TFLOP/s", "1,750 TFLOP/s"),
    ("peak", "Llama-3.1-405B decodes {} on H200.", "1,200 tok/s/GPU", "12,000 tok/s/GPU"),
    ("repeat", "# 2.5x higher goodput\n\nWe get 2.5x higher "
               "goodput.\n\n## Conclusion\n\nIn all, {} higher goodput.\n", "2.5x", "2.7x"),
]  # fmt: skip


@pytest.mark.parametrize(("detector", "template", "right", "wrong"), CASES)
def test_right_holds_and_wrong_differs(
    check: Check, detector: str, template: str, right: str, wrong: str
) -> None:
    good, bad = check(template.format(right)), check(template.format(wrong))
    assert not good.findings
    assert detector in {r.detector for r in good.relations}
    assert detector in {r.detector for r in bad.findings}


SILENT = [
    "All are within 2% of each other. We ran 4,318 against 4,420 requests.",
    "They stay within 2% of each other at batch 8 and 64.",
    "They stay within 2% of each other at 8 and 64.",
    "They stay within 2% of each other, at 128 vs 1,024 users.",
    "It reduces memory to 38% (from 80 GB to 30 GB).",
    "# 2x higher throughput\n\nWe get 2x higher throughput.\n\nOn "
    "B200 we get 3x higher throughput.\n\nIn all, 2x higher throughput.",
    "TTFT fell from 40 ms to 22 ms (P99 from 80 ms to 45 ms), a 45% reduction.",
    "- **Results:** we need to do two things:\n\n1. a\n\n```json\n{}\n```\n\n2. b\n",
    "Overheads fell from 341% to 7-15%.",
    "The share is (100 - 1) × 0.5 + 1 = 50.5 on average.",
    "As context grows from 8K to 128K tokens, throughput drops 45%.",
    "Scaling from 1 to 8 GPUs improves throughput by 6.5x.",
    "Memory went from 80 GB to 60 GB, and we needed 30% fewer GPUs.",
    "Relaxing the TPOT limit from 20 ms to 50 ms raises throughput by 40%.",
    "TPOT fell from 40 ms to 22 ms while throughput rose 35%.",
    "FP8 has 2.6x higher burst throughput than BF16. At burst FP8 is almost 2x faster than BF16.",
    "Separating the two timelines gives both sides a better contract:\n\n1. a\n2. b\n3. c\n",
    "These two patches fix races:\n\n- a\n- b\n- c\n",
    "Standard serving achieves 26/100 at rate = 8.",
    "| Metric | Mean | Median | P99 |\n|---|---|---|---|\n| TTFT "
    "(ms) | 120 | 100 | 900 |\n| TPOT (ms) | 20 | 19 | 60 |\n",
    "| Model | Speedup |\n|---|---|\n| A | 1.5x |\n| B | 2.0x |\n",
    "On H100, 2x higher throughput.\n\nOn A100, 3x higher throughput.\n",
    "It answers contradiction (2).\n\n| Label | Severity |\n|---|---|\n| Contradiction | 4 "
    "|\n| Neutral | 2 |\n",
    "Requests flow across 7 iterations.\n\n| Iteration | Events |\n|---|---|\n| **1** | a |\n| **2** | b |\n"
    "| **3** | c |\n| **4** | d |\n| **5** | e |\n| **6-7** | f |\n",
    "You take four steps:\n\n- Step 1: a\n- Steps 2–3: b\n- Step 4: c\n",
    "- GPT-OSS: 20B, 120B parameters\n",
    "GPT-OSS is a 20B parameter model.\n",
    "Llama-3.1-405B comes with 405B, 70B or 8B parameters.\n",
    "| Metric | Before | After | Change |\n|---|---|---|---|\n| Median E2EL | 9654ms | 5699ms | −41.0% |\n"
    "| P99 E2EL | 17686ms | 8956ms | −49.4% |\n",
    "| Metric | P50 | P90 | P99 |\n|---|---|---|---|\n| Reduction | 40% | 30% | 20% |\n",
    "| Metric | P50 | P90 | P99 |\n|---|---|---|---|\n| A to B (ms) | +40 | +30 | +20 |\n",
    # a factor or change whose baseline row is of a metric that the table does not hold
    "| Policy | Switches | Cost reduction |\n|---|---|---|\n| a | 9,709 | 0.00% |\n| b | 340 | 98.65% |\n"
    "| c | 1,810 | 70.92% |\n| d | 2,011 | 78.71% |\n",
    "| Engine | TTFT (ms) | Relative throughput |\n|---|---|---|\n| a | 90 | 1.0x |\n| b | 61 | 2.2x |\n"
    "| c | 70 | 3.1x |\n",
    "| Build | Time | Power (W) | Speedup |\n|---|---|---|---|\n| a | 40 ms | 300 | 1x |\n"
    "| b | - | 350 | 1.3x |\n"
    "| c | - | 410 | 1.6x |\n",
    "| Tools | Without | With | Recovery |\n|---|---|---|---|\n| 49 | 94% | 94% | Baseline |\n"
    "| 207 | 64% | 94% | +47% |\n| 417 | 20% | 94% | +370% |\n| 741 | 13.62% | 43.13% | +217% |\n",
    # vs NAME where NAME is a row, or nowhere; a change beside two sizes of different things
    "| Run | Host peak | Worker peak | vs. Baseline |\n|---|---|---|---|\n| mmap | 47 GB | 12.1 GB | — |\n"
    "| no mmap | 178 GB | 36 GB | -73% |\n",
    "| Strategy | CPU | HBM | vs. HSDP |\n|---|---|---|---|\n| HSDP | 0 GB | 20.3 GB | — |\n"
    "| A | 3.5 GB | 12.4 GB | -17% |\n| B | 3.5 GB | 12.4 GB | 3.3× |\n| C | 28.3 GB | 14.1 GB | -55% |\n",
    "| Batch | trt | torch | speedup (vs FP16) |\n|---|---|---|---|\n| 8 | 5.26 | 4.87 | 1.44 |\n"
    "| 16 | 10.58 | 9.80 | 1.42 |\n| 32 | 20.48 | 19.36 | 1.43 |\n",
    "| Window | INT8 | Speedup |\n|---|---|---|\n| 8 | 23.59 | 1.47 |\n| 16 | 26.58 | 1.42 |\n"
    "| 24 | 30.1 | - |\n",
    # signed changes by percentile have no order
    "| Percentile | TTFT change |\n|---|---|\n| p50 | -41% |\n| p90 | -49% |\n| p99 | -60% |\n",
    "| | p50 | p95 | p99 |\n|---|---|---|---|\n| ITL delta (%) | +12 | +8 | +3 |\n",
    # a range states no single value
    "It is 4-7x slower (0.92 s wake vs 3.72 s cold start).",
    "It is 2x to 4x faster (41 ms vs 10.1 ms at batch 1).",
    "TTFT falls between 20% and 60% (from 2.0 s to 0.8 s).",
    "TTFT falls 20–60% (2.0 s → 0.8 s).",
    # a family's name, and a list of sizes
    "Qwen3 has a 0.6B parameter member.",
    "Llama 3.1 (8B, 70B and 405B parameters) is supported.",
    "DeepSeek-V3 has 671B total parameters and 37B activated parameters.",
    "DeepSeek-V3 (37B active, 671B total) is large.",
    "The workload is DeepSeek-V3: hidden 7168, top-k 8, 256 routed experts.",
    # an index in brackets, a range as a row's label
    "The last class is neutral (1), the first is entail (0).\n\n| Label | Count |\n|---|---|\n"
    "| Entail | 40 |\n"
    "| Neutral | 50 |\n",
    "The run has 9 phases in the table below.\n\n| Phase | s |\n|---|---|\n| 1 | 2 |\n| 2–5 | 3 |\n"
    "| 6 to 9 | 4 |\n",
    # shapes, brackets that say what is done, lists that go on
    "A band is 4 strips of 16×64 = 4 loads a lane.",
    "It runs 8 untimed roundtrips (settling clocks, fabric, and buffer state) first.",
    "The run starts two engines:\n\n- a\n- b\n- neither uses X\n- the pool is Y\n",
    # a total that is a mean, a mean of some
    "| Socket | Read (GB) | Local | Freq |\n|---|---|---|---|\n| 0 | 7.93 | 49% | 2.30 |\n"
    "| 1 | 2.56 | 46% | 2.21 |\n"
    "| Total | 10.49 | 48% | 2.25 |\n",
    "| Task | A | B |\n|---|---|---|\n| x | 10.0 | 40.0 |\n| y | 4.0 | 5.0 |\n| z | 5.0 | 6.0 |\n"
    "| w | 6.0 | 7.0 |\n"
    "| **Average** | 5.0 | 6.0 |\n",
    # statistics of runs that a table does not show
    "| Epoch | Loss | Average | Minimum | Maximum |\n|---|---|---|---|---|\n"
    "| 1 | 0.165 | 20.1 | 19.760 | 20.480 |\n"
    "| 2 | 0.145 | 22.0 | 21.650 | 22.230 |\n",
    # memory sizes that belong to a GPU's name, headings of variants and their list
    "- [Training on DGX A100 (8x A100 40GB)](#a)\n- [Training on DGX A100 (8x A100 80GB)](#b)\n\n"
    "## Training on DGX A100 (8x A100 40GB)\n\na\n\n## Training on DGX A100 (8x A100 80GB)\n\nb\n",
    "## Offline runs on one machine with 22B parameters and 512 requests\n\na\n\n"
    "## Offline runs on one machine with 4B parameters and 512 requests\n\nb\n",
    # a speed-up of one metric beside numbers of another; constants that are no ratio
    "| GPUs | Accuracy TF32 | Accuracy mixed | Time to train speedup |\n|---|---|---|---|\n"
    "| 8 | 0.274 | 0.271 | 100% |\n",
    "| Model | lr sched | train time (s/iter) | im/gpu |\n|---|---|---|---|\n| a | 1x | 0.7007 | 1 |\n"
    "| b | 1x | 0.7562 | 1 |\n| c | 1x | 0.9000 | 2 |\n",
    # changes of pairs of runs that a table averages
    PAIRED.format("paired change"),
    PAIRED.format("Change (mean of ratios)"),
    PAIRED.format("per-run improvement"),
    PAIRED.format("median over pairs, gain"),
    # the embedding left out of active parameters; memory as the driver shows it
    "gpt-oss-120b has 117B parameters with 5.1B active parameters.",
    "gpt-oss-120b activates 5.1B parameters per token.",
    "B300 (275GB) runs with tp=4. B300 (268 GB memory) too.",
    "Each B300 (275 GB HBM) holds a half; an H200 (140GB VRAM) does not.",
    # a total counted with the others
    BUCKETS.format("three", "total"),
    BUCKETS.format("three", "overall"),
    BUCKETS.format("two", "total"),
    # decimal commas of one output in a document with points
    "It takes 0.25 ms and 12.50 ms. The log says 0,03 ms per token, 29392,21 tokens per second.",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_is_left_alone(check: Check, text: str) -> None:
    assert not check(text).findings


def test_slips_are_named(check: Check) -> None:
    (finding,) = check("TTFT dropped from 2.1 s to 1.3 s, a 62% reduction.").findings
    assert "at this percentage of the old one" in finding.slip
    (finding,) = check("Accuracy rose from 60.0% to 66.0%, a 6% gain.").findings
    assert finding.slip == "these are percentage points"
