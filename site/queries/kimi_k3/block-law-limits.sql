-- title: Limits on requests in flight against context
-- column context_tokens: {label = "context", unit = "tokens"}
-- empty: the laws have not been derived
SELECT n.seal, upper(n.platform) AS platform, n.context_tokens, u.law, u.requests
FROM capacity_law_n_max AS n,
LATERAL (VALUES ('block law', n.block), ('printed law', n.pool), ('slots', n.slots)) AS u(law, requests)
WHERE NOT n.prefix_caching
ORDER BY platform, u.law, n.context_tokens
