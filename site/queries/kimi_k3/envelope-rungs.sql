-- title: The envelope of the twin, rung by rung
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column max_num_seqs: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "requests"}
-- column wall_s: {label = "wall", unit = "s", format = ".2f"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column wall_over_floor: {label = "wall over floor", unit = "×", format = ".2f"}
-- column rate_over_single: {label = "rate over single", unit = "×", format = ".1f"}
-- column plateau: {label = "really in flight", format = ".1f"}
-- column tier: {label = "tier", hide = true}
-- column n_runs: {hide = true}
-- column n_serves: {hide = true}
-- Of several runs on a target the one with the most requests is shown; a run that is not valid or tainted never is.
-- Integer sums: the order of rows must not move a digit.
WITH chosen AS (
  SELECT r.seal FROM envelope_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), rungs AS (
  SELECT seal, subject, tier, concurrency, sum(completed) AS n_requests, sum(CAST(round(wall_s * 1e9) AS BIGINT)) / 1e9 / count(*) AS wall_s,
         sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS tokens_per_s, min(in_flight_plateau) AS plateau,
         count(DISTINCT run_id) AS n_runs
  FROM envelope_rungs WHERE measured AND valid AND seal IN (SELECT seal FROM chosen) GROUP BY ALL
), floors AS (SELECT seal, wall_s, tokens_per_s FROM rungs WHERE concurrency = 1)
SELECT r.seal, CASE WHEN starts_with(r.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, r.subject, upper(regexp_extract(r.subject, 'twin:([a-z0-9]+)', 1)) AS platform,
       coalesce('raised to ' || nullif(regexp_extract(r.subject, 'max_num_seqs=([0-9]+)', 1), ''), 'as shipped') AS max_num_seqs,
       r.concurrency, CAST(r.n_requests AS BIGINT) AS n_requests, r.wall_s, r.tokens_per_s,
       r.wall_s / f.wall_s AS wall_over_floor, r.tokens_per_s / f.tokens_per_s AS rate_over_single,
       r.plateau, r.tier, r.n_runs, (SELECT serves FROM artifacts AS s WHERE s.seal = r.seal) AS n_serves
FROM rungs AS r JOIN floors AS f ON f.seal = r.seal
ORDER BY r.subject, r.concurrency
