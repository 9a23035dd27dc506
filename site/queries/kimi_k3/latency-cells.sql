-- title: Every cell of the latency table, published, predicted and run
-- column concurrency: {label = "in flight"}
-- column published: {label = "published", format = ".1f", seal = "printed_seal"}
-- column predicted: {label = "predicted, wall law", format = ".1f", seal = "law_seal"}
-- column run: {label = "run on the twin", format = ".1f", seal = "twin_seal"}
-- column n_requests: {label = "n"}
-- empty: this probe has not run
-- Predicted is the printed wall law with nothing added for the queue. The twin was fitted to this table: in-sample.
-- A quantile stands only where the sample carries it: ten requests for a median, five hundred for a p99.
WITH chosen AS (
  SELECT r.seal FROM latency_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), timed AS (
  SELECT r.seal, r.subject, g.concurrency, count(*) AS n_requests,
         quantile_cont((first_token_ns - sent_ns) / 1e9, 0.5) AS p50,
         quantile_cont((first_token_ns - sent_ns) / 1e9, 0.99) AS p99,
         sum(done_ns - first_token_ns) / 1e6 / sum(r.completion_tokens - 1) AS tpot_ms
  FROM latency_requests AS r JOIN latency_rungs AS g ON g.seal = r.seal AND g.rung = r.wave
  WHERE g.measured AND g.valid AND g.seal IN (SELECT seal FROM chosen) GROUP BY r.seal, r.subject, g.concurrency
), rates AS (
  SELECT seal, concurrency, sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS out_rate,
         sum(completion_tokens + prompt_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS total_rate,
         max(output_tokens_target) AS osl, max(prompt_tokens_target) AS isl
  FROM latency_rungs WHERE measured AND valid GROUP BY ALL
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, p.seal AS law_seal, t.seal AS twin_seal, p.concurrency, u.quantity,
       u.unit, u.published, u.predicted, u.run, t.n_requests, 'in-sample' AS relation
FROM published_decode_latency AS p
JOIN published_decode_wall_law AS w ON w.seal = p.seal AND w.platform = p.platform
JOIN timed AS t ON t.subject = 'twin:' || p.platform AND t.concurrency = p.concurrency
JOIN rates AS x ON x.seal = t.seal AND x.concurrency = t.concurrency,
LATERAL (VALUES
  ('TTFT p50', 's', p.ttft_p50_s, NULL, CASE WHEN t.n_requests >= 10 THEN t.p50 END),
  ('TTFT p99', 's', p.ttft_p99_s, NULL, CASE WHEN t.n_requests >= 500 THEN t.p99 END),
  ('TPOT', 'ms', p.tpot_ms, w.k_ms_per_token, t.tpot_ms),
  ('output rate', 'tokens/s', p.out_tokens_per_s, p.concurrency * x.osl / (w.c0_s + w.k_s_per_token * x.osl), x.out_rate),
  ('total rate', 'tokens/s', p.total_tokens_per_s,
   p.concurrency * (x.osl + x.isl) / (w.c0_s + w.k_s_per_token * x.osl), x.total_rate)
) AS u(quantity, unit, published, predicted, run)
ORDER BY p.concurrency, CASE u.quantity WHEN 'TTFT p50' THEN 1 WHEN 'TTFT p99' THEN 2 WHEN 'TPOT' THEN 3 WHEN 'output rate' THEN 4 ELSE 5 END
