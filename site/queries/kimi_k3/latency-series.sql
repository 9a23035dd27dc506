-- title: First-token time against requests in flight
-- column source: {label = "from"}
-- column concurrency: {label = "in flight"}
-- column seconds: {label = "first token", unit = "s", format = ".1f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
-- The twin of MI325X was fitted to the printed rows: in-sample. A quantile stands only where the sample carries it.
SELECT t.seal, 'twin' AS source, b.platform, u.quantile, t.concurrency, u.seconds, NULL AS relation, t.n_requests
FROM best_run AS b JOIN rung_latency AS t ON t.seal = b.seal,
LATERAL (VALUES ('median', t.ttft_p50_s), ('p90', t.ttft_p90_s)) AS u(quantile, seconds)
WHERE b.probe = 'latency' AND b.plain_twin AND u.seconds IS NOT NULL
UNION ALL
SELECT p.seal, 'printed', upper(p.platform), u.quantile, p.concurrency, u.seconds, relation_of('twin', 'latency', concat_ws('/', p.platform, p.concurrency), u.printed_column), NULL
FROM published_decode_latency AS p, LATERAL (VALUES ('median', p.ttft_p50_s, 'ttft_p50_s'), ('p99', p.ttft_p99_s, 'ttft_p99_s')) AS u(quantile, seconds, printed_column)
ORDER BY source, platform, quantile, concurrency
