-- title: Requests that fit, by law
-- column context_tokens: {label = "context", unit = "tokens"}
-- column block: {label = "block law"}
-- column block_caching: {label = "with prefix caching"}
-- column pool: {label = "printed law"}
-- column effective: {label = "fit"}
-- column following: {label = "next"}
-- empty: the laws have not been derived
SELECT a.seal, upper(a.platform) AS platform, a.context_tokens, a.block, b.block AS block_caching, a.pool, a.slots,
       a.effective, a.binds, a.next AS following
FROM capacity_law_n_max AS a
JOIN capacity_law_n_max AS b
  ON b.seal = a.seal AND b.platform = a.platform AND b.context_tokens = a.context_tokens AND b.prefix_caching
WHERE NOT a.prefix_caching
ORDER BY platform, a.context_tokens
