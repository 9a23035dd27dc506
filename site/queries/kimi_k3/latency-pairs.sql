-- title: Latency inside the envelope, printed beside the twin
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "n"}
-- column printed_ttft_p50_s: {label = "TTFT p50 printed", unit = "s", format = ".1f", seal = "printed_seal"}
-- column twin_ttft_p50_s: {label = "TTFT p50 twin", unit = "s", format = ".2f", seal = "twin_seal", n = "n_requests"}
-- column twin_ttft_p90_s: {label = "TTFT p90 twin", unit = "s", format = ".2f", seal = "twin_seal", n = "n_requests"}
-- column printed_ttft_p99_s: {label = "TTFT p99 printed", unit = "s", format = ".1f", seal = "printed_seal"}
-- column printed_tpot_ms: {label = "TPOT printed", unit = "ms", format = ".1f", seal = "printed_seal"}
-- column twin_tpot_ms: {label = "TPOT twin, pooled", unit = "ms", format = ".1f", seal = "twin_seal"}
-- column printed_rate: {label = "output rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal"}
-- column twin_rate: {label = "output rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column n_serves: {hide = true}
-- The twin's prefill and batch terms are fitted to this very table: in-sample, so no difference is shown.
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform,
       p.concurrency, t.n_requests, p.ttft_p50_s AS printed_ttft_p50_s, t.ttft_p50_s AS twin_ttft_p50_s,
       t.ttft_p90_s AS twin_ttft_p90_s, p.ttft_p99_s AS printed_ttft_p99_s, p.tpot_ms AS printed_tpot_ms,
       t.tpot_ms AS twin_tpot_ms, p.out_tokens_per_s AS printed_rate, x.out_tokens_per_s AS twin_rate,
       b.n_serves, relation_of('twin', 'latency', concat_ws('/', p.platform, p.concurrency), 'ttft_p50_s') AS relation
FROM published_decode_latency AS p
JOIN best_run AS b ON b.probe = 'latency' AND b.subject = 'twin:' || p.platform
JOIN rung_latency AS t ON t.seal = b.seal AND t.concurrency = p.concurrency
JOIN rung_rate AS x ON x.seal = b.seal AND x.concurrency = p.concurrency
ORDER BY p.platform DESC, p.concurrency
