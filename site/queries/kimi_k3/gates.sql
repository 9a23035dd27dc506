-- title: Every gate
-- column subject: {label = "target"}
-- column context: {label = "context", unit = "tokens", format = "d"}
-- column n_requests: {label = "needles"}
-- column gates: {label = "gates", about = "gates of the same target with the same outcome, each before a run of its own"}
-- column hits: {label = "recalled"}
-- column bound: {label = "failure rate below", format = ".1%"}
-- column confidence: {label = "confidence", format = ".0%"}
-- column leaks: {label = "needles of others"}
-- column strongest: {label = "strongest of its target", hide = true}
-- column n_serves: {hide = true}
-- Small models on CPU cores, served as tiny-NAME, have a page of their own (real-needles): beside these rows they would pass for the model of the report.
-- The bound is exact for no failure (Clopper-Pearson, one-sided); with a failure the gate has not passed and none is shown.
WITH counted AS (
  SELECT seal, subject, count(*) AS total, count(*) FILTER (outcome = 'hit') AS hits,
         count(*) FILTER (outcome IN ('leak', 'foreign')) AS leaks
  FROM needle_gate_needles GROUP BY ALL
)
SELECT list(c.seal ORDER BY c.seal) AS seal, c.subject, CAST(json_extract(a.parameters, '$.context') AS BIGINT) AS context,
       count(*) AS gates, c.total AS n_requests, c.hits,
       CASE WHEN c.hits = c.total THEN CAST(json_extract(a.verdict, '$.failure_rate_bound') AS DOUBLE) END AS bound,
       CAST(regexp_extract(json_extract_string(a.verdict, '$.power'), 'at ([0-9.]+) %', 1) AS DOUBLE) / 100 AS confidence, c.leaks,
       a.verdict_ok AS passed,
       row_number() OVER (PARTITION BY c.subject ORDER BY a.verdict_ok DESC, c.total DESC, min(c.seal)) = 1 AS strongest,
       sum(a.serves) AS n_serves
FROM counted AS c JOIN artifacts AS a ON a.seal = c.seal
WHERE NOT (a.tier = 'measured' AND starts_with(coalesce(json_extract_string(a.serve, '$.models[0]'), ''), 'tiny-'))
GROUP BY c.subject, context, c.total, c.hits, bound, confidence, c.leaks, a.verdict_ok
ORDER BY c.subject, context, min(c.seal)
