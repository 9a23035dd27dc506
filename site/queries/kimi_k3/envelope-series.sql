-- title: Output rate against requests in flight, twin and printed points
-- column source: {label = "from"}
-- column setting: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- Of several runs on a target the one with the most requests is shown; a run that is not valid or tainted never is.
-- Integer sums: the order of rows must not move a digit.
WITH chosen AS (
  SELECT r.seal FROM envelope_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid AND regexp_full_match(r.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?') GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), twin AS (
  SELECT seal, subject, concurrency, sum(completed) AS n_requests, sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS rate
  FROM envelope_rungs WHERE measured AND valid AND seal IN (SELECT seal FROM chosen) GROUP BY ALL
)
SELECT seal, 'twin' AS source, upper(regexp_extract(subject, 'twin:([a-z0-9]+)', 1)) AS platform,
       coalesce('raised to ' || nullif(regexp_extract(subject, 'max_num_seqs=([0-9]+)', 1), ''), 'as shipped') AS setting,
       concurrency, rate AS tokens_per_s, NULL AS printed_in, NULL AS relation,
       CAST(n_requests AS BIGINT) AS n_requests, (SELECT serves FROM artifacts AS s WHERE s.seal = twin.seal) AS n_serves
FROM twin
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, value, place, 'held-out', NULL, NULL
FROM published_decode_envelope WHERE quantity = 'throughput' AND platform = 'mi325x'
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, out_tokens_per_s, regexp_extract(locator, '[^,]*'), 'in-sample', NULL, NULL
FROM published_decode_latency
UNION ALL
SELECT seal, 'printed', 'MI300X', CASE WHEN max_num_seqs = 8 THEN 'as shipped' ELSE 'raised to ' || max_num_seqs END,
       concurrency, out_tokens_per_s, regexp_extract(locator, '[^,]*'),
       CASE WHEN concurrency = 32 AND max_num_seqs = 8 THEN 'in-sample' ELSE 'held-out' END, NULL, NULL
FROM published_decode_slots
ORDER BY source, platform, setting, concurrency
