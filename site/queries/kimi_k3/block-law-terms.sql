-- title: Terms of the block law
-- column caching: {label = "prefix caching"}
-- column mode: {label = "state blocks"}
-- column block_tokens: {label = "block", unit = "tokens"}
-- column groups: {label = "layer groups"}
-- column pool_block_bytes: {label = "pool block", unit = "bytes"}
-- column pool_blocks: {label = "pool", unit = "blocks"}
-- column printed_tokens: {label = "tokens the engine prints"}
-- column longest_at_run_time: {label = "longest request", unit = "tokens"}
-- empty: the laws have not been derived
SELECT seal, upper(platform) AS platform, CASE WHEN prefix_caching THEN 'on' ELSE 'off' END AS caching, mode,
       block_tokens, groups, pool_block_bytes, pool_blocks, printed_tokens, longest_at_run_time
FROM capacity_law_terms
ORDER BY platform, prefix_caching
