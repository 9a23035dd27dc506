-- title: The gate as the publications print it
-- column state: {label = "state of the stack"}
-- column concurrency: {label = "in flight"}
-- column context_tokens: {label = "context", unit = "tokens", format = "d"}
-- column asked: {label = "of"}
SELECT seal, state, concurrency, context_tokens, recalled, asked
FROM earlier_report_serve_gate
ORDER BY recalled / asked, state
