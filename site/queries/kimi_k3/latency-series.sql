-- title: First-token time against requests in flight
-- column source: {label = "from"}
-- column concurrency: {label = "in flight"}
-- column seconds: {label = "first token", unit = "s", format = ".1f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
-- The twin of MI325X was fitted to the printed rows: in-sample. A quantile stands only where the sample carries it.
WITH chosen AS (
  SELECT r.seal FROM latency_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid AND regexp_full_match(r.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?') GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), twin AS (
  SELECT r.seal, upper(regexp_extract(r.subject, 'twin:([a-z0-9]+)', 1)) AS platform, g.concurrency, count(*) AS n_requests,
         quantile_cont((first_token_ns - sent_ns) / 1e9, 0.5) AS p50, quantile_cont((first_token_ns - sent_ns) / 1e9, 0.9) AS p90
  FROM latency_requests AS r JOIN latency_rungs AS g ON g.seal = r.seal AND g.rung = r.wave
  WHERE g.measured AND g.valid AND g.seal IN (SELECT seal FROM chosen) GROUP BY ALL
)
SELECT t.seal, 'twin' AS source, t.platform, u.quantile, t.concurrency, u.seconds, NULL AS relation, t.n_requests
FROM twin AS t, LATERAL (VALUES ('median', CASE WHEN t.n_requests >= 10 THEN t.p50 END), ('p90', CASE WHEN t.n_requests >= 50 THEN t.p90 END))
  AS u(quantile, seconds)
WHERE u.seconds IS NOT NULL
UNION ALL
SELECT p.seal, 'printed', upper(p.platform), u.quantile, p.concurrency, u.seconds, 'in-sample', NULL
FROM published_decode_latency AS p, LATERAL (VALUES ('median', p.ttft_p50_s), ('p99', p.ttft_p99_s)) AS u(quantile, seconds)
ORDER BY source, platform, quantile, concurrency
