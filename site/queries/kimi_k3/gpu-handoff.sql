-- title: Bytes one request moves from prefill to decode, on one rank
-- column launch: {label = "launch"}
-- column tp: {label = "rank of TP"}
-- column kv_dtype: {label = "cache"}
-- column caching: {label = "prefix caching"}
-- column gpus: {label = "GPUs"}
-- column prompt_tokens: {label = "prompt", unit = "tokens", format = "d"}
-- column predicted_mb: {label = "predicted", unit = "MB", format = ".3f", seal = "seal_predicted"}
-- column counted_mb: {label = "counted", unit = "MB", format = ".3f"}
-- column descriptors: {label = "descriptors", more = true}
-- column same: {label = "to the byte"}
-- empty: no hand-off on a GPU has been sealed
SELECT c.seal, p.seal AS seal_predicted, c.launch, s.tp, s.kv_dtype, CASE WHEN s.prefix_caching THEN 'on' ELSE 'off' END AS caching, c.gpus,
       c.prompt_tokens, p.bytes / 1e6 AS predicted_mb, c.bytes / 1e6 AS counted_mb, c.descriptors, c.same, relation_between(p.seal, c.seal) AS relation
FROM launch_check_handoffs AS c JOIN launch_predictions_startups AS s ON s.launch = c.launch
JOIN launch_predictions_handoffs AS p ON p.launch = c.launch AND p.prompt_tokens = c.prompt_tokens
ORDER BY c.gpus, c.launch, c.prompt_tokens, c.seal
