-- title: Limits against context, and waves served and failed
-- column context_tokens: {label = "context", unit = "tokens"}
-- empty: the laws have not been derived
SELECT n.seal, upper(n.platform) AS platform, u.series, 'limit' AS kind, n.context_tokens, u.requests
FROM capacity_law_n_max AS n, LATERAL (VALUES ('block law', n.block), ('printed law', n.pool), ('slots', n.slots)) AS u(series, requests)
WHERE NOT n.prefix_caching
UNION ALL
SELECT g.seal, upper(g.platform), u.series, 'wave', g.context_tokens, u.requests
FROM published_capacity_grid AS g, LATERAL (VALUES ('served', g.highest_served), ('failed', g.lowest_failed)) AS u(series, requests)
WHERE u.requests IS NOT NULL
UNION ALL
SELECT e.seal, upper(e.platform), 'envelope, most in flight', 'wave', c.isl + q.value, max(e.concurrency)
FROM published_decode_envelope AS e
JOIN published_decode_classes AS c ON c.seal = e.seal AND c.platform = e.platform AND c.class = 'throughput-peak'
JOIN published_recipe_question AS q ON q.quantity = 'reply'
WHERE e.quantity = 'throughput' GROUP BY e.seal, e.platform, c.isl, q.value
ORDER BY platform, kind, series, context_tokens
