-- title: Requests that fit against context, step by step
-- column platform: {label = "platform"}
-- column context_tokens: {label = "context", unit = "tokens", format = "d"}
-- column law: {label = "rule"}
-- column requests: {label = "requests", format = "d", disputed = "disputed"}
-- column disputed: {hide = true}
-- column label: {hide = true}
-- empty: the laws have not been derived
-- A step ends where one more token needs another block: at whole numbers of blocks. The lanes follow from the derived limits.
WITH first AS (
  SELECT n.platform, n.block // ((t.pool_blocks - 1) // n.blocks_per_request) AS lanes,
         n.blocks_per_request - (n.context_tokens + t.block_tokens - 1) // t.block_tokens AS pinned
  FROM capacity_law_n_max AS n JOIN capacity_law_terms AS t ON t.seal = n.seal AND t.platform = n.platform AND NOT t.prefix_caching
  WHERE NOT n.prefix_caching QUALIFY row_number() OVER (PARTITION BY n.platform ORDER BY n.context_tokens) = 1
), steps AS (
  SELECT t.seal, t.platform, t.block_tokens, t.pool_blocks, f.lanes, f.pinned,
         unnest(generate_series(t.block_tokens, t.longest_at_run_time, t.block_tokens)) AS context_tokens
  FROM capacity_law_terms AS t JOIN first AS f USING (platform) WHERE NOT t.prefix_caching
), counted AS (
  SELECT seal, platform, context_tokens, lanes * ((pool_blocks - 1) // (context_tokens // block_tokens + pinned)) AS requests FROM steps
), edges AS (
  SELECT *, row_number() OVER (PARTITION BY platform ORDER BY context_tokens) = 1 AS named,
         requests IS DISTINCT FROM lead(requests) OVER (PARTITION BY platform ORDER BY context_tokens) AS edge FROM counted
), series AS (
  SELECT seal, platform, context_tokens, 'in whole blocks' AS law, requests, named, NULL AS disputed FROM edges WHERE edge OR named
  UNION ALL
  SELECT p.seal, p.platform, p.context_tokens, 'printed', p.n_max,
         row_number() OVER (PARTITION BY p.platform ORDER BY p.context_tokens DESC) = 1,
         contradicted(p.subject, concat('t2.k', CAST(p.context_tokens // 1000 AS BIGINT), '.n', regexp_extract(p.platform, '\d+')))
  FROM published_capacity_grid AS p
)
SELECT seal, upper(platform) AS platform, CAST(context_tokens AS BIGINT) AS context_tokens, law, CAST(requests AS BIGINT) AS requests,
       CASE WHEN NOT named THEN '' WHEN law = 'printed' THEN law ELSE upper(platform) END AS label, disputed
FROM series WHERE requests > 0 ORDER BY platform, law, context_tokens
