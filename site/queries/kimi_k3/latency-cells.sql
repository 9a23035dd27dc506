-- title: Every cell of the latency table, published, predicted and run
-- column concurrency: {label = "in flight"}
-- column published: {label = "published", format = ".1f", seal = "printed_seal"}
-- column predicted: {label = "predicted, wall law", format = ".1f", seal = "law_seal"}
-- column run: {label = "run on the twin", format = ".1f", seal = "twin_seal"}
-- column n_requests: {label = "n"}
-- empty: this probe has not run
-- Predicted is the printed wall law with nothing added for the queue. The twin was fitted to this table: in-sample.
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, p.seal AS law_seal, t.seal AS twin_seal, p.concurrency, u.quantity,
       u.unit, u.published, u.predicted, u.run, t.n_requests, relation_of('twin', 'latency', concat_ws('/', p.platform, p.concurrency), u.printed_column) AS relation
FROM published_decode_latency AS p
JOIN published_decode_wall_law AS w ON w.seal = p.seal AND w.platform = p.platform
JOIN best_run AS b ON b.probe = 'latency' AND b.subject = 'twin:' || p.platform
JOIN rung_latency AS t ON t.seal = b.seal AND t.concurrency = p.concurrency
JOIN rung_rate AS x ON x.seal = b.seal AND x.concurrency = p.concurrency,
LATERAL (VALUES
  ('TTFT p50', 's', 'ttft_p50_s', p.ttft_p50_s, NULL, t.ttft_p50_s),
  ('TTFT p99', 's', 'ttft_p99_s', p.ttft_p99_s, NULL, t.ttft_p99_s),
  ('TPOT', 'ms', 'tpot_ms', p.tpot_ms, w.k_ms_per_token, t.tpot_ms),
  ('output rate', 'tokens/s', 'out_tokens_per_s', p.out_tokens_per_s, p.concurrency * x.osl / (w.c0_s + w.k_s_per_token * x.osl), x.out_tokens_per_s),
  ('total rate', 'tokens/s', 'total_tokens_per_s', p.total_tokens_per_s,
   p.concurrency * (x.osl + x.isl) / (w.c0_s + w.k_s_per_token * x.osl), x.total_tokens_per_s)
) AS u(quantity, unit, printed_column, published, predicted, run)
ORDER BY p.concurrency, CASE u.quantity WHEN 'TTFT p50' THEN 1 WHEN 'TTFT p99' THEN 2 WHEN 'TPOT' THEN 3 WHEN 'output rate' THEN 4 ELSE 5 END
