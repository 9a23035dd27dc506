-- title: Wall-clock over that of a single request
-- column source: {label = "from"}
-- column setting: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column over_floor: {label = "wall over the floor", format = ".2f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
WITH chosen AS (
  SELECT r.seal FROM envelope_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid AND regexp_full_match(r.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?') GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), rungs AS (
  SELECT seal, subject, concurrency, CAST(sum(completed) AS BIGINT) AS n_requests, sum(CAST(round(wall_s * 1e9) AS BIGINT)) / count(*) AS wall
  FROM envelope_rungs WHERE measured AND valid AND seal IN (SELECT seal FROM chosen) GROUP BY ALL
)
SELECT r.seal, 'twin' AS source, upper(regexp_extract(r.subject, 'twin:([a-z0-9]+)', 1)) AS platform,
       coalesce('raised to ' || nullif(regexp_extract(r.subject, 'max_num_seqs=([0-9]+)', 1), ''), 'as shipped') AS setting,
       r.concurrency, r.wall / f.wall AS over_floor, NULL AS relation, r.n_requests
FROM rungs AS r JOIN rungs AS f ON f.seal = r.seal AND f.concurrency = 1
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, value, 'held-out', NULL
FROM published_decode_envelope WHERE quantity = 'wall_over_floor'
ORDER BY source, platform, setting, concurrency
