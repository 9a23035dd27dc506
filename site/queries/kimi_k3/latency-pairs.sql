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
-- Of several runs on a target the one with the most requests is shown; a run that is not valid or tainted never is.
-- Integer sums: the order of rows must not move a digit.
WITH chosen AS (
  SELECT r.seal FROM latency_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), twin AS (
  SELECT r.seal, r.subject, g.concurrency, count(*) AS n_requests,
         quantile_cont((first_token_ns - sent_ns) / 1e9, 0.5) AS p50,
         quantile_cont((first_token_ns - sent_ns) / 1e9, 0.9) AS p90,
         sum(done_ns - first_token_ns) / 1e6 / sum(r.completion_tokens - 1) AS tpot_ms
  FROM latency_requests AS r JOIN latency_rungs AS g ON g.seal = r.seal AND g.rung = r.wave
  WHERE g.measured AND g.valid AND g.seal IN (SELECT seal FROM chosen) GROUP BY r.seal, r.subject, g.concurrency
), rates AS (
  SELECT seal, concurrency, sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS rate
  FROM latency_rungs WHERE measured AND valid GROUP BY ALL
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform,
       p.concurrency, t.n_requests, p.ttft_p50_s AS printed_ttft_p50_s, t.p50 AS twin_ttft_p50_s,
       t.p90 AS twin_ttft_p90_s, p.ttft_p99_s AS printed_ttft_p99_s, p.tpot_ms AS printed_tpot_ms,
       t.tpot_ms AS twin_tpot_ms, p.out_tokens_per_s AS printed_rate, x.rate AS twin_rate,
       (SELECT serves FROM artifacts AS s WHERE s.seal = t.seal) AS n_serves, 'in-sample' AS relation
FROM published_decode_latency AS p
JOIN twin AS t ON t.subject = 'twin:' || p.platform AND t.concurrency = p.concurrency
JOIN rates AS x ON x.seal = t.seal AND x.concurrency = t.concurrency
ORDER BY p.platform DESC, p.concurrency
