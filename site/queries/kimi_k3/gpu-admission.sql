-- title: Requests that ran together on a GPU, beside two laws
-- column pool: {label = "pool"}
-- column context: {label = "context", unit = "tokens", format = "d"}
-- column concurrency: {label = "offered"}
-- column by_block_law: {label = "by the block law", seal = "seal_predicted"}
-- column by_bytes_law: {label = "by bytes per token", seal = "seal_predicted"}
-- column resident: {label = "ran together"}
-- column waiting: {label = "waited"}
-- column preemptions: {label = "preempted", more = true}
-- column predicted_usage: {label = "pool use, predicted", format = ".1%", more = true}
-- column usage: {label = "pool use", format = ".1%", more = true}
-- column filled: {label = "cache", more = true, about = "Whether a connector of the engine filled the cache, or the prompts were prefilled"}
-- column block_law_holds: {label = "block law"}
-- column bytes_law_holds: {label = "bytes per token"}
-- column n_serves: {label = "serves"}
-- empty: no admission on a GPU has been sealed
SELECT any_value(c.seal) AS seal, any_value(p.seal) AS seal_predicted,
       CAST(s.pool_bytes / 1e9 AS BIGINT) || ' GB' AS pool, c.context, c.concurrency,
       any_value(c.by_block_law) AS by_block_law, any_value(c.by_bytes_law) AS by_bytes_law, max(c.resident) AS resident,
       max(c.waiting) AS waiting, max(c.preemptions) AS preemptions, any_value(c.predicted_usage) AS predicted_usage,
       max(c.usage) AS usage, CASE WHEN c.filled THEN 'filled' ELSE 'prefilled' END AS filled,
       CASE WHEN bool_and(c.block_law_holds) THEN 'holds' ELSE 'fails' END AS block_law_holds,
       CASE WHEN bool_and(c.bytes_law_holds) THEN 'holds' ELSE 'fails' END AS bytes_law_holds,
       count(*) AS n_serves, any_value(relation_between(p.seal, c.seal)) AS relation
FROM launch_check_admissions AS c
JOIN launch_predictions_startups AS s ON s.launch = c.launch
JOIN launch_predictions_admissions AS p ON p.launch = c.launch AND p.context = c.context
GROUP BY s.pool_bytes, c.context, c.concurrency, c.filled
ORDER BY s.pool_bytes, c.context, c.concurrency, c.filled DESC
