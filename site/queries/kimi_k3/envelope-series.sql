-- title: Output rate against requests in flight, twin and printed points
-- column source: {label = "from"}
-- column setting: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
SELECT r.seal, 'twin' AS source, b.platform, b.setting, r.concurrency, r.out_tokens_per_s AS tokens_per_s,
       NULL AS printed_in, NULL AS relation, r.n_requests, b.n_serves
FROM best_run AS b JOIN rung_rate AS r ON r.seal = b.seal WHERE b.probe = 'envelope' AND b.plain_twin
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, value, place, relation_of('twin', 'envelope', concat_ws('/', platform, concurrency, quantity), 'value'), NULL, NULL
FROM published_decode_envelope WHERE quantity = 'throughput' AND platform = 'mi325x'
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, out_tokens_per_s, regexp_extract(locator, '[^,]*'),
       relation_of('twin', 'latency', concat_ws('/', platform, concurrency), 'out_tokens_per_s'), NULL, NULL
FROM published_decode_latency
UNION ALL
SELECT seal, 'printed', 'MI300X', CASE WHEN max_num_seqs = 8 THEN 'as shipped' ELSE 'raised to ' || max_num_seqs END,
       concurrency, out_tokens_per_s, regexp_extract(locator, '[^,]*'),
       relation_of('twin', 'slots', concat_ws('/', concurrency, max_num_seqs), 'out_tokens_per_s'), NULL, NULL
FROM published_decode_slots
ORDER BY source, platform, setting, concurrency
