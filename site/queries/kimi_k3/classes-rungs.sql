-- title: Throughput classes of the twin
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column isl: {label = "input", unit = "tokens"}
-- column osl: {label = "output", unit = "tokens"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "requests"}
-- column out_rate: {label = "output rate", unit = "tokens/s", format = ".0f"}
-- column total_rate: {label = "total rate", unit = "tokens/s", format = ".0f"}
-- column n_serves: {hide = true}
-- empty: this probe has not run
-- Integer sums: the order of rows must not move a digit.
SELECT r.seal, CASE WHEN starts_with(r.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, r.subject, c.class, c.isl, c.osl, c.concurrency, CAST(sum(r.completed) AS BIGINT) AS n_requests,
       sum(r.completion_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS out_rate,
       sum(r.completion_tokens + r.prompt_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS total_rate,
       any_value(a.serves) AS n_serves
FROM classes_rungs AS r JOIN classes_classes AS c ON c.seal = r.seal AND c.rung = r.rung
JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
WHERE r.measured AND r.valid
GROUP BY r.seal, r.subject, c.class, c.isl, c.osl, c.concurrency
ORDER BY c.isl, r.subject, r.seal
