-- title: Requests of a wave that end within a timeout, on the twin
-- column context_tokens: {label = "context", unit = "tokens", format = "d"}
-- column timeout_s: {label = "timeout", unit = "s", format = "d"}
-- column share: {label = "share done", format = ".0%"}
-- empty: the fidelity table has not run
SELECT seal, upper(platform) AS platform, context_tokens, timeout_s, completed / concurrency AS share
FROM twin_fidelity_grid WHERE concurrency = 32 ORDER BY platform DESC, context_tokens, timeout_s
