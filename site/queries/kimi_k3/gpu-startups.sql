-- title: Start-up lines of launches on a GPU: predicted, then printed
-- column launch: {label = "launch"}
-- column tp: {label = "rank of TP"}
-- column kv_dtype: {label = "cache"}
-- column caching: {label = "prefix caching"}
-- column block_size: {label = "--block-size", more = true}
-- column pool_gb: {label = "pool", unit = "GB", format = ".2f"}
-- column max_model_len: {label = "longest request", unit = "tokens", format = "d", more = true}
-- column predicted_block: {label = "block, predicted", unit = "tokens", format = "d", seal = "seal_predicted", more = true}
-- column printed_block: {label = "block, printed", unit = "tokens", format = "d", more = true}
-- column predicted_tokens: {label = "tokens, predicted", unit = "tokens", format = "d", seal = "seal_predicted"}
-- column printed_tokens: {label = "tokens, printed", unit = "tokens", format = "d"}
-- column same: {label = "same"}
-- column n_serves: {label = "serves"}
-- empty: no launch on a GPU has been sealed
SELECT any_value(c.seal) AS seal, any_value(p.seal) AS seal_predicted, c.launch, p.tp, p.kv_dtype,
       CASE WHEN p.prefix_caching THEN 'on' ELSE 'off' END AS caching, p.block_size, p.pool_bytes / 1e9 AS pool_gb,
       p.max_model_len, any_value(c.predicted_block) AS predicted_block, max(c.printed_block) AS printed_block,
       any_value(c.predicted_tokens) AS predicted_tokens, max(c.printed_tokens) AS printed_tokens, bool_and(c.same) AS same,
       count(*) AS n_serves, any_value(relation_between(p.seal, c.seal)) AS relation
FROM launch_check_startups AS c JOIN launch_predictions_startups AS p ON p.launch = c.launch
GROUP BY c.launch, p.tp, p.kv_dtype, p.prefix_caching, p.block_size, p.pool_bytes, p.max_model_len
ORDER BY p.pool_bytes DESC, p.tp, p.kv_dtype DESC, c.launch
