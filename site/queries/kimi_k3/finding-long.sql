-- title: Requests of the worked example's context that fit on MI300X
-- column what: {label = "what"}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- column number: {label = "requests", format = "d", disputed = "disputed"}
-- column disputed: {hide = true}
WITH printed AS (SELECT seal, contradicted(subject, concat('t2.k', CAST(context_tokens // 1000 AS BIGINT), '.n', regexp_extract(platform, '\d+'))) AS claim, context_tokens, n_max FROM published_capacity_grid WHERE platform = 'mi300x'),
law AS (SELECT seal, context_tokens, block, pool FROM capacity_law_n_max WHERE platform = 'mi300x' AND NOT prefix_caching),
pair AS (
  SELECT p.seal AS printed_seal, l.seal AS law_seal, p.claim, p.n_max, l.block, l.pool FROM printed AS p JOIN law AS l USING (context_tokens)
  JOIN published_recipe_worked_example AS w ON TRUE QUALIFY row_number() OVER (ORDER BY abs(p.context_tokens - 200000)) = 1
)
SELECT u.seal, u.what, u.source, CAST(u.number AS BIGINT) AS number, block < pool AND pool < n_max + 1 AS holds,
       CASE WHEN u.source = 'printed' THEN claim END AS disputed
FROM pair, LATERAL (VALUES (printed_seal, 'printed', 'printed', n_max), (law_seal, 'printed formula, rounded down', 'derived', pool),
  (law_seal, 'in whole blocks', 'derived', block)) AS u(seal, what, source, number)
ORDER BY list_position(['printed', 'printed formula, rounded down', 'in whole blocks'], u.what)
