-- title: Printed figures of the envelope beside the twin
-- column concurrency: {label = "in flight"}
-- column printed: {label = "printed", format = ".1f", seal = "printed_seal"}
-- column twin: {label = "twin", format = ".1f", seal = "twin_seal"}
-- column relative_difference: {label = "twin minus printed, relative", format = ".1%", difference = true}
-- column place: {label = "printed where", hide = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- The walls at one request follow from the printed fit, which the twin was set to: in-sample. The other figures were
-- not used to set it (see platforms.toml of the twin: the fit, Table 3 up to 128 in flight, one cell of Table 4).
-- Of several runs on a target the one with the most requests is shown; a run that is not valid or tainted never is.
-- Integer sums: the order of rows must not move a digit.
WITH chosen AS (
  SELECT r.seal FROM envelope_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), rungs AS (
  SELECT seal, subject, concurrency, sum(completed) AS n_requests, sum(CAST(round(wall_s * 1e9) AS BIGINT)) / 1e9 / count(*) AS wall_s,
         sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS tokens_per_s
  FROM envelope_rungs WHERE measured AND valid AND seal IN (SELECT seal FROM chosen) GROUP BY ALL
), floors AS (SELECT seal, wall_s, tokens_per_s FROM rungs WHERE concurrency = 1),
twin AS (
  SELECT r.seal, r.subject, r.concurrency, r.n_requests, u.quantity, u.number
  FROM rungs AS r JOIN floors AS f ON f.seal = r.seal,
  LATERAL (VALUES ('wall', r.wall_s), ('throughput', r.tokens_per_s), ('wall_over_floor', r.wall_s / f.wall_s),
           ('throughput_over_single', r.tokens_per_s / f.tokens_per_s)) AS u(quantity, number)
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform,
       p.concurrency, replace(p.quantity, '_', ' ') AS quantity, p.unit, p.value AS printed, t.number AS twin,
       CASE WHEN p.quantity <> 'wall' THEN t.number / p.value - 1 END AS relative_difference,
       p.place, CAST(t.n_requests AS BIGINT) AS n_requests, (SELECT serves FROM artifacts AS s WHERE s.seal = t.seal) AS n_serves,
       CASE WHEN p.quantity = 'wall' THEN 'in-sample' ELSE 'held-out' END AS relation
FROM published_decode_envelope AS p
JOIN twin AS t ON t.subject = 'twin:' || p.platform AND t.concurrency = p.concurrency AND t.quantity = p.quantity
ORDER BY p.platform DESC, p.concurrency, p.quantity
