-- title: The study in counts
-- column n_levels: {label = "levels"}
-- column n_series: {label = "ladders"}
-- column n_findings: {label = "findings"}
-- column n_surviving: {label = "of these, with a wider tolerance"}
-- column n_steady: {label = "levels that can be a steady state"}
-- column n_short: {label = "levels that fell short of their concurrency"}
SELECT l.seal, (SELECT count(*) FROM table_reading_findings f WHERE f.seal = l.seal) AS n_findings,
  (SELECT count(*) FROM table_reading_findings f WHERE f.seal = l.seal AND f.survives) AS n_surviving,
  count(*) AS n_levels, count(DISTINCT l.series) AS n_series, count(*) FILTER (WHERE l.steady = 'steady') AS n_steady,
  count(*) FILTER (WHERE l.short <> '') AS n_short
FROM table_reading_levels l WHERE l.subject = 'mi325x-cookbook' GROUP BY l.seal ORDER BY l.seal
