-- title: Latency per number in flight
-- column subject: {label = "target"}
-- column isl: {label = "ISL", unit = "tokens"}
-- column osl: {label = "OSL", unit = "tokens"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "n"}
-- column ttft_p50_s: {label = "TTFT p50", unit = "s", format = ".2f", n = "n_requests", about = "From sending a request to its first token, in the client's clock; the median over requests"}
-- column ttft_p90_s: {label = "TTFT p90", unit = "s", format = ".2f", n = "n_requests", about = "From sending a request to its first token, in the client's clock; a high quantile over requests"}
-- column tpot_ms: {label = "TPOT, pooled", unit = "ms", format = ".1f", about = "Time after the first token, over all requests, divided by the tokens after the first, over all requests"}
-- column day: {label = "day", about = "Of the run, UTC; a simulation has none."}
-- column n_serves: {hide = true}
-- Small models on CPU cores, served as tiny-NAME, have a page of their own (real-speed).
SELECT t.seal, t.subject, t.isl, t.osl, t.concurrency, t.n_requests, t.ttft_p50_s, t.ttft_p90_s, t.tpot_ms,
       left(json_extract_string(a.serve, '$.at'), 10) AS day, a.serves AS n_serves
FROM rung_latency AS t JOIN artifacts AS a ON a.seal = t.seal AND a.verdict_ok
WHERE t.probe = 'latency' AND NOT (a.tier = 'measured' AND starts_with(coalesce(json_extract_string(a.serve, '$.models[0]'), ''), 'tiny-'))
ORDER BY t.subject, t.seal, t.concurrency
