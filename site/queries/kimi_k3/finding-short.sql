-- title: Short sequences that the MI325X pool holds
-- column what: {label = "what"}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- column number: {label = "sequences", format = "d", disputed = "disputed"}
-- column disputed: {hide = true}
-- The printed number stands as a finding only while both ways to compute it stay below half of it.
WITH printed AS (SELECT seal, contradicted(subject, 'max.mi325x') AS claim, value FROM published_memory_figures WHERE item = 'short sequences MI325X'),
law AS (
  SELECT seal, block, pool FROM capacity_law_n_max WHERE platform = 'mi325x' AND NOT prefix_caching
  QUALIFY row_number() OVER (ORDER BY context_tokens) = 1
)
SELECT u.seal, u.what, u.source, CAST(u.number AS BIGINT) AS number,
       l.pool < p.value AND l.block < l.pool AS holds, CASE WHEN u.source = 'printed' THEN p.claim END AS disputed
FROM printed AS p, law AS l, LATERAL (VALUES
  (p.seal, 'printed', 'printed', p.value), (l.seal, 'by the printed formula', 'derived', l.pool),
  (l.seal, 'in whole blocks', 'derived', l.block)) AS u(seal, what, source, number)
ORDER BY list_position(['printed', 'by the printed formula', 'in whole blocks'], u.what)
