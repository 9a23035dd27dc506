-- title: Printed figures of the envelope beside the twin
-- column concurrency: {label = "in flight"}
-- column printed: {label = "printed", format = ".1f", seal = "printed_seal"}
-- column twin: {label = "twin", format = ".1f", seal = "twin_seal"}
-- column relative_difference: {label = "twin minus printed, relative", format = ".1%", difference = true}
-- column place: {label = "printed where", hide = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- A wall at one request is a point of the printed fit, which the twin was set to.
WITH twin AS (
  SELECT r.seal, r.subject, r.concurrency, r.n_requests, b.n_serves, u.quantity, u.number
  FROM best_run AS b JOIN rung_rate AS r ON r.seal = b.seal JOIN rung_rate AS f ON f.seal = b.seal AND f.concurrency = 1,
  LATERAL (VALUES ('wall', r.wall_s), ('throughput', r.out_tokens_per_s), ('wall_over_floor', r.wall_s / f.wall_s),
           ('throughput_over_single', r.out_tokens_per_s / f.out_tokens_per_s)) AS u(quantity, number)
  WHERE b.probe = 'envelope'
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform,
       p.concurrency, replace(p.quantity, '_', ' ') AS quantity, p.unit, p.value AS printed, t.number AS twin,
       CASE WHEN NOT circular_of('twin', 'envelope', concat_ws('/', p.platform, p.concurrency, p.quantity), 'value')
         THEN t.number / p.value - 1 END AS relative_difference,
       p.place, t.n_requests, t.n_serves, relation_of('twin', 'envelope', concat_ws('/', p.platform, p.concurrency, p.quantity), 'value') AS relation
FROM published_decode_envelope AS p
JOIN twin AS t ON t.subject = 'twin:' || p.platform AND t.concurrency = p.concurrency AND t.quantity = p.quantity
ORDER BY p.platform DESC, p.concurrency, p.quantity
