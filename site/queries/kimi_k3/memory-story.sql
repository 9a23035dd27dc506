-- title: What is left for KV beside the pool that is printed
-- column platform: {label = "platform"}
-- column heap_gib: {label = "transfer heap, as printed", unit = "GiB", format = ".0f", seal = "budget_seal"}
-- column left_gib: {label = "left for KV with that heap", unit = "GiB", format = ".1f", seal = "budget_seal"}
-- column pool_gib: {label = "KV pool of a GPU, as printed", unit = "GiB", format = ".1f", seal = "law_seal"}
-- column pool_gb: {label = "the same", unit = "GB", format = ".0f", seal = "law_seal"}
-- column heap_most_gib: {label = "largest heap that leaves that pool", unit = "GiB", format = ".1f"}
-- empty: the budget has not been derived
SELECT [b.seal, t.seal] AS seal, b.seal AS budget_seal, t.seal AS law_seal, upper(b.platform) AS platform,
       b.heap / 1073741824.0 AS heap_gib, b.headroom_high / 1073741824.0 AS left_gib, t.pool_bytes / 1073741824.0 AS pool_gib,
       t.pool_bytes / 1e9 AS pool_gb, (b.heap + b.headroom_high - t.pool_bytes) / 1073741824.0 AS heap_most_gib
FROM memory_budget_layouts AS b JOIN capacity_law_terms AS t ON t.platform = b.platform AND NOT t.prefix_caching
WHERE b.tp = 2 AND b.nodes = 2 ORDER BY platform DESC
