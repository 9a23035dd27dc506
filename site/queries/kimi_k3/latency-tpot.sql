-- title: Time per output token against requests in flight
-- column source: {label = "from"}
-- column concurrency: {label = "in flight"}
-- column tpot_ms: {label = "TPOT", unit = "ms", format = ".1f", about = "Time after the first token divided by the tokens after the first; the twin's row takes both over all requests"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
SELECT t.seal, 'twin' AS source, b.platform, t.concurrency, t.tpot_ms, NULL AS relation, t.n_requests
FROM best_run AS b JOIN rung_latency AS t ON t.seal = b.seal WHERE b.probe = 'latency' AND b.plain_twin
UNION ALL
SELECT seal, 'printed', upper(platform), concurrency, tpot_ms, relation_of('twin', 'latency', concat_ws('/', platform, concurrency), 'tpot_ms'), NULL FROM published_decode_latency
ORDER BY source, platform, concurrency
