-- title: First token and rate at long context
-- column source: {label = "from"}
-- column concurrency: {label = "in flight"}
-- column value: {label = "value", format = ".4g"}
-- column n_requests: {hide = true}
-- column relation: {label = "relation to the twin"}
-- empty: the capacity grid has not run
-- First token: the median of a wave on the twin; the publication does not say which quantile it prints.
WITH grids AS (
  SELECT c.seal, c.subject FROM capacity_grid_cells AS c
  JOIN artifacts AS a ON a.seal = c.seal AND a.verdict_ok AND a.name = 'capacity-grid'
    AND TRY_CAST(json_extract_string(a.parameters, '$.osl') AS BIGINT) < 1000
  WHERE regexp_full_match(c.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?') GROUP BY c.seal, c.subject
  QUALIFY row_number() OVER (PARTITION BY c.subject ORDER BY count(*) DESC, c.seal) = 1
), timed AS (
  SELECT r.seal, c.subject, c.context, c.concurrency, count(*) AS n_requests,
         CASE WHEN count(*) >= 10 THEN quantile_cont(r.ttft_s, 0.5) END AS ttft,
         sum(r.prompt_tokens + r.completion_tokens) * 1e9 / (max(r.done_ns) - min(r.sent_ns)) AS rate
  FROM all_requests AS r JOIN capacity_grid_cells AS c ON c.seal = r.seal AND c.rung = r.wave
  WHERE r.seal IN (SELECT seal FROM grids) AND r.outcome = 'completed' GROUP BY ALL
)
SELECT t.seal, 'twin' AS source, upper(regexp_extract(t.subject, 'twin:([a-z0-9]+)', 1)) AS platform, t.context, t.concurrency, u.quantity, u.value, u.unit,
       t.n_requests, NULL AS relation
FROM timed AS t, LATERAL (VALUES ('first token', t.ttft, 's'), ('total rate', t.rate, 'tokens/s')) AS u(quantity, value, unit)
WHERE u.value IS NOT NULL
UNION ALL
SELECT seal, 'printed', upper(platform), isl, concurrency, 'first token', ttft_min * 60, 's', NULL, relation_of('twin', 'waves', wave, 'ttft_min')
FROM published_memory_waves WHERE ttft_min IS NOT NULL
UNION ALL
SELECT w.seal, 'printed', upper(w.platform), w.isl, w.concurrency, 'total rate', w.concurrency * (w.isl + w.osl) / (w.wall_min * 60), 'tokens/s', NULL, relation_of('twin', 'waves', w.wave, 'wall_min')
FROM published_memory_waves AS w WHERE w.wall_min IS NOT NULL
ORDER BY quantity, source, platform, context, concurrency
