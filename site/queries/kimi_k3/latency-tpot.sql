-- title: Time per output token against requests in flight
-- column source: {label = "from"}
-- column concurrency: {label = "in flight"}
-- column tpot_ms: {label = "TPOT", unit = "ms", format = ".1f", about = "Time after the first token divided by the tokens after the first; the twin's row takes both over all requests"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
WITH chosen AS (
  SELECT r.seal FROM latency_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid AND regexp_full_match(r.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?') GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
)
SELECT r.seal, 'twin' AS source, upper(regexp_extract(r.subject, 'twin:([a-z0-9]+)', 1)) AS platform, g.concurrency,
       sum(done_ns - first_token_ns) / 1e6 / sum(r.completion_tokens - 1) AS tpot_ms, NULL AS relation, count(*) AS n_requests
FROM latency_requests AS r JOIN latency_rungs AS g ON g.seal = r.seal AND g.rung = r.wave
WHERE g.measured AND g.valid AND g.seal IN (SELECT seal FROM chosen) GROUP BY r.seal, r.subject, g.concurrency
UNION ALL
SELECT seal, 'printed', upper(platform), concurrency, tpot_ms, 'in-sample', NULL FROM published_decode_latency
ORDER BY source, platform, concurrency
