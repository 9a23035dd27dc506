-- title: Rungs at which the laws differ
-- column context_tokens: {label = "context", unit = "tokens"}
-- column low: {label = "from, in flight"}
-- column high: {label = "to, in flight"}
-- column waiting_block: {label = "waiting at the top by the block law"}
-- column waiting_pool: {label = "by the printed law"}
-- column reachable: {label = "slots let them in"}
-- empty: the laws have not been derived
SELECT seal, upper(platform) AS platform, context_tokens, low, high, waiting_block, waiting_pool, reachable
FROM capacity_law_rungs
ORDER BY platform, context_tokens
