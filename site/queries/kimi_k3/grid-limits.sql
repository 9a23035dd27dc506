-- title: Requests that fit, printed and predicted
-- column context_tokens: {label = "context", unit = "tokens"}
-- column published: {label = "published limit", seal = "printed_seal", disputed = "disputed"}
-- column disputed: {hide = true}
-- column by_pool: {label = "predicted, printed law", seal = "our_seal"}
-- column by_blocks: {label = "predicted, block law", seal = "our_seal"}
-- column slots: {label = "slots", seal = "our_seal"}
-- column fits: {label = "fits in all", seal = "our_seal"}
-- column binds: {label = "what binds", seal = "our_seal"}
-- empty: the laws have not been derived
-- The printed law is computed from the printed pool and bytes per token, as the publication does: same-law.
SELECT [p.seal, n.seal] AS seal, p.seal AS printed_seal, n.seal AS our_seal, upper(p.platform) AS platform,
       p.context_tokens, p.n_max AS published, n.pool AS by_pool, n.block AS by_blocks, n.slots, n.effective AS fits,
       n.binds, contradicted(p.subject, concat('t2.k', CAST(p.context_tokens // 1000 AS BIGINT), '.n', regexp_extract(p.platform, '\d+'))) AS disputed,
       relation_of('formula', 'grid', concat_ws('/', p.platform, p.context_tokens), 'n_max') AS relation
FROM published_capacity_grid AS p
JOIN capacity_law_n_max AS n ON n.platform = p.platform AND n.context_tokens = p.context_tokens AND NOT n.prefix_caching
ORDER BY p.platform, p.context_tokens
