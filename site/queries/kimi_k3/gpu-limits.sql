-- title: Requests of one length that fit a lane: two laws and what ran on a GPU
-- column pool: {label = "pool"}
-- column kind: {hide = true}
-- column series: {label = "from"}
-- column context: {label = "context", unit = "tokens", format = "d"}
-- column requests: {label = "requests"}
-- empty: no admission on a GPU has been sealed
SELECT p.seal, CAST(s.pool_bytes / 1e9 AS BIGINT) || ' GB' AS pool, 'law' AS kind, u.series, p.context, u.requests, NULL AS relation
FROM launch_predictions_admissions AS p JOIN launch_predictions_startups AS s ON s.launch = p.launch AND p.launch NOT LIKE '%prefilled',
LATERAL (VALUES ('block law', p.block_law), ('bytes per token', p.bytes_law)) AS u(series, requests)
UNION ALL
SELECT any_value(c.seal), CAST(s.pool_bytes / 1e9 AS BIGINT) || ' GB', 'measured', 'ran together', c.context, max(c.resident), any_value(relation_between(s.seal, c.seal))
FROM launch_check_admissions AS c JOIN launch_predictions_startups AS s ON s.launch = c.launch
WHERE c.concurrency > c.by_block_law GROUP BY s.pool_bytes, c.context
ORDER BY pool, kind, series, context
