-- title: What the calculator evaluates: laws and launches
-- column caching: {label = "prefix caching"}
-- column law: {label = "requests that fit, by blocks", kind = "json", seal = "law_seal"}
-- column pool_law: {label = "requests that fit, by bytes a token", kind = "json", seal = "law_seal"}
-- column pool_bytes: {label = "KV pool of a GPU", unit = "bytes", seal = "law_seal"}
-- column slots: {label = "slots", seal = "law_seal"}
-- column max_model_len: {label = "longest request accepted", unit = "tokens", seal = "law_seal"}
-- column decode_nodes: {label = "nodes of a decode pool", seal = "layout_seal"}
-- column prefill_nodes: {label = "nodes of the prefill pool", seal = "layout_seal"}
-- column wall: {label = "seconds of a wave, as printed", kind = "json", seal = "layout_seal"}
-- column default_context: {hide = true, seal = "grid_seal"}
-- column default_concurrency: {hide = true, seal = "grid_seal"}
-- column default_reply: {hide = true, seal = "layout_seal"}
-- empty: the laws have not been derived
-- The defaults ask for the shortest context at which a printed wave failed, with as many requests as were served there.
WITH fields AS (
  SELECT seal, subject, max(value) FILTER (section = '' AND field = 'platform') AS platform,
         max(value) FILTER (section = 'layout' AND field = 'decode_nodes') AS decode_nodes,
         max(value) FILTER (section = 'layout' AND field = 'prefill_nodes') AS prefill_nodes,
         max(value) FILTER (section = 'wall' AND field = 'c0_s') AS c0,
         max(value) FILTER (section = 'wall' AND field = 'k_s_per_token') AS k,
         max(value) FILTER (section = 'wall' AND field = 'osl_low') AS osl_low,
         max(value) FILTER (section = 'wall' AND field = 'osl_high') AS osl_high,
         max(value) FILTER (section = 'wall' AND field = 'isl') AS isl,
         max(value) FILTER (section = 'wall' AND field = 'concurrency') AS concurrency
  FROM spec_fields WHERE subject LIKE 'layouts/k3-2p2d-%' GROUP BY seal, subject
), failed AS (
  SELECT seal, context_tokens, highest_served FROM published_capacity_grid
  WHERE lowest_failed IS NOT NULL AND highest_served IS NOT NULL
  QUALIFY row_number() OVER (ORDER BY context_tokens, platform) = 1
)
SELECT [t.seal, f.seal] AS seal, t.seal AS law_seal, f.seal AS layout_seal, g.seal AS grid_seal,
       upper(t.platform) AS platform, CASE WHEN t.prefix_caching THEN 'on' ELSE 'off' END AS caching,
       t.law, t.pool_law, t.pool_bytes, t.slots, t.max_model_len,
       CAST(f.decode_nodes AS BIGINT) AS decode_nodes, CAST(f.prefill_nodes AS BIGINT) AS prefill_nodes,
       '{"formula": ["+", ' || f.c0 || ', ["*", ' || f.k || ', ["var", "osl"]]], "range": {"concurrency": [' || f.concurrency
         || ', ' || f.concurrency || '], "isl": [' || f.isl || ', ' || f.isl || '], "osl": [' || f.osl_low || ', '
         || f.osl_high || ']}}' AS wall,
       g.context_tokens AS default_context, g.highest_served AS default_concurrency,
       CAST(f.osl_high AS BIGINT) AS default_reply
FROM capacity_law_terms AS t JOIN fields AS f ON f.platform = '"' || t.platform || '"', failed AS g
ORDER BY t.platform DESC, t.prefix_caching
