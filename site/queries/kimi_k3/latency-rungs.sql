-- title: Latency per number in flight
-- column subject: {label = "target"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "n"}
-- column ttft_p50_s: {label = "TTFT p50", unit = "s", format = ".2f", n = "n_requests", about = "From sending a request to its first token, in the client's clock; the median over requests"}
-- column ttft_p90_s: {label = "TTFT p90", unit = "s", format = ".2f", n = "n_requests", about = "From sending a request to its first token, in the client's clock; a high quantile over requests"}
-- column tpot_ms: {label = "TPOT, pooled", unit = "ms", format = ".1f", about = "Time after the first token, over all requests, divided by the tokens after the first, over all requests"}
-- column n_serves: {hide = true}
-- Small models on CPU cores, served as tiny-NAME, have a page of their own (real-speed).
SELECT r.seal, r.subject, g.concurrency, count(*) AS n_requests,
       CASE WHEN count(*) >= 10 THEN quantile_cont((first_token_ns - sent_ns) / 1e9, 0.5) END AS ttft_p50_s,
       CASE WHEN count(*) >= 50 THEN quantile_cont((first_token_ns - sent_ns) / 1e9, 0.9) END AS ttft_p90_s,
       sum(done_ns - first_token_ns) / 1e6 / sum(r.completion_tokens - 1) AS tpot_ms, any_value(a.serves) AS n_serves
FROM latency_requests AS r JOIN latency_rungs AS g ON g.seal = r.seal AND g.rung = r.wave
JOIN artifacts AS a ON a.seal = r.seal
WHERE g.measured AND g.valid AND NOT (a.tier = 'measured' AND starts_with(coalesce(json_extract_string(a.serve, '$.models[0]'), ''), 'tiny-'))
GROUP BY r.seal, r.subject, g.concurrency
ORDER BY r.subject, r.seal, g.concurrency
