-- title: Bytes one request hands over on one K3 rank, by the law
-- column launch: {hide = true}
-- column tp: {label = "rank of TP"}
-- column kv_dtype: {label = "cache"}
-- column prompt_tokens: {label = "prompt", unit = "tokens", format = "d"}
-- column state_pages: {label = "state pages"}
-- column blocks: {label = "blocks"}
-- column mb: {label = "one rank", unit = "MB", format = ".1f"}
-- empty: nothing has been predicted
SELECT h.seal, h.launch, s.tp, s.kv_dtype, h.prompt_tokens, h.state_pages, h.blocks, h.bytes / 1e6 AS mb
FROM launch_predictions_handoffs AS h JOIN launch_predictions_startups AS s ON s.seal = h.seal AND s.launch = h.launch
WHERE NOT s.prefix_caching
ORDER BY s.tp, s.kv_dtype DESC, h.prompt_tokens
