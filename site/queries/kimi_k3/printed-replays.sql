-- title: Agentic replays, as printed
-- column concurrency: {label = "users"}
-- column n_requests: {label = "turns completed"}
-- column input_p99: {label = "input p99", unit = "tokens", format = "d"}
-- column ttft_p50_s: {label = "TTFT p50", unit = "s", format = ".1f"}
-- column itl_p50_ms: {label = "ITL p50", unit = "ms", format = ".1f"}
-- column active_rate: {label = "active rate", unit = "tokens/s", format = "d"}
-- column cache_hit: {label = "cache hit", unit = "%", format = "d"}
SELECT seal, upper(platform) AS platform, profile, concurrency, requests AS n_requests, CAST(input_p99 AS BIGINT) AS input_p99,
       ttft_p50_s, itl_p50_ms, CAST(active_tokens_per_s AS BIGINT) AS active_rate, CAST(cache_hit AS BIGINT) AS cache_hit
FROM published_agentic_replays
ORDER BY input_p99, platform DESC, concurrency
