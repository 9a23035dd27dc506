-- title: Output rate against requests in flight, twin and printed points
-- column source: {label = "from"}
-- column platform: {label = "platform"}
-- column setting: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column printed_in: {label = "printed in"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
WITH twin AS (
  SELECT seal, subject, concurrency, sum(completed) AS n_requests, sum(completion_tokens) / sum(wall_s) AS rate
  FROM envelope_rungs WHERE measured AND valid GROUP BY ALL
)
SELECT seal, 'twin' AS source, upper(regexp_extract(subject, 'twin:([a-z0-9]+)', 1)) AS platform,
       coalesce('raised to ' || nullif(regexp_extract(subject, 'max_num_seqs=([0-9]+)', 1), ''), 'as shipped') AS setting,
       concurrency, rate AS tokens_per_s, NULL AS printed_in, NULL AS relation,
       CAST(n_requests AS BIGINT) AS n_requests, 1 AS n_serves
FROM twin
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, value, place, 'held-out', NULL, NULL
FROM published_decode_envelope WHERE quantity = 'throughput' AND platform = 'mi325x'
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, out_tokens_per_s, 'Table 3', 'in-sample', NULL, NULL
FROM published_decode_latency
UNION ALL
SELECT seal, 'printed', 'MI300X', CASE WHEN max_num_seqs = 8 THEN 'as shipped' ELSE 'raised to ' || max_num_seqs END,
       concurrency, out_tokens_per_s, 'Table 4',
       CASE WHEN concurrency = 32 AND max_num_seqs = 8 THEN 'in-sample' ELSE 'held-out' END, NULL, NULL
FROM published_decode_slots
ORDER BY source, platform, setting, concurrency
