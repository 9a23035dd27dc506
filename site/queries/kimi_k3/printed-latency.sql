-- title: Latency inside the envelope, as printed
-- column concurrency: {label = "in flight"}
-- column ttft_p50_s: {label = "TTFT p50", unit = "s", format = ".1f", about = "As the publication printed it: from sending a request to its first token"}
-- column ttft_p99_s: {label = "TTFT p99", unit = "s", format = ".1f", about = "As the publication printed it: from sending a request to its first token"}
-- column tpot_ms: {label = "TPOT", unit = "ms", format = ".1f", about = "As the publication defines it: time after the first token divided by the tokens after the first"}
-- column out_tokens_per_s: {label = "output rate", unit = "tokens/s", format = "d"}
-- column total_tokens_per_s: {label = "total rate", unit = "tokens/s", format = "d"}
SELECT seal, concurrency, ttft_p50_s, ttft_p99_s, tpot_ms, CAST(out_tokens_per_s AS BIGINT) AS out_tokens_per_s,
       CAST(total_tokens_per_s AS BIGINT) AS total_tokens_per_s
FROM published_decode_latency
ORDER BY concurrency
