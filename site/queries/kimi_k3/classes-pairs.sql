-- title: Throughput classes, printed beside the twin
-- column concurrency: {label = "in flight"}
-- column printed_out: {label = "output rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal"}
-- column twin_out: {label = "output rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column printed_total: {label = "total rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal"}
-- column twin_total: {label = "total rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column relative_difference: {label = "output, twin minus printed, relative", format = ".1%", difference = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: this probe has not run
-- No class was used to set the twin (its constants name their sources), so all of them are held out.
WITH twin AS (
  SELECT r.seal, r.subject, c.class, sum(r.completed) AS n_requests,
         sum(r.completion_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS out_rate,
         sum(r.completion_tokens + r.prompt_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS total_rate
  FROM classes_rungs AS r JOIN classes_classes AS c ON c.seal = r.seal AND c.rung = r.rung
  JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid
  GROUP BY r.seal, r.subject, c.class
  QUALIFY row_number() OVER (PARTITION BY r.subject, c.class ORDER BY sum(r.completed) DESC, r.seal) = 1
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform, p.class,
       p.concurrency, p.out_tokens_per_s AS printed_out, t.out_rate AS twin_out,
       p.total_tokens_per_s AS printed_total, t.total_rate AS twin_total,
       t.out_rate / p.out_tokens_per_s - 1 AS relative_difference,
       CAST(t.n_requests AS BIGINT) AS n_requests, (SELECT serves FROM artifacts AS s WHERE s.seal = t.seal) AS n_serves, 'held-out' AS relation
FROM published_decode_classes AS p
JOIN twin AS t ON t.subject = 'twin:' || p.platform AND t.class = p.class
ORDER BY p.isl, p.platform
