-- title: Requests of the longest context that the engine accepts
-- column platform: {label = "platform"}
-- column max_model_len: {label = "longest request accepted", unit = "tokens", format = "d"}
-- column requests: {label = "requests that fit", format = "d"}
-- empty: the laws have not been derived
WITH first AS (
  SELECT n.platform, n.block // ((t.pool_blocks - 1) // n.blocks_per_request) AS lanes,
         n.blocks_per_request - (n.context_tokens + t.block_tokens - 1) // t.block_tokens AS pinned
  FROM capacity_law_n_max AS n JOIN capacity_law_terms AS t ON t.seal = n.seal AND t.platform = n.platform AND NOT t.prefix_caching
  WHERE NOT n.prefix_caching QUALIFY row_number() OVER (PARTITION BY n.platform ORDER BY n.context_tokens) = 1
)
SELECT t.seal, upper(t.platform) AS platform, t.max_model_len,
       CAST(f.lanes * ((t.pool_blocks - 1) // ((t.max_model_len + t.block_tokens - 1) // t.block_tokens + f.pinned)) AS BIGINT) AS requests
FROM capacity_law_terms AS t JOIN first AS f USING (platform) WHERE NOT t.prefix_caching ORDER BY platform DESC
