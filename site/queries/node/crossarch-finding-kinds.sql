-- title: Kinds of findings
-- column n_findings: {label = "findings"}
-- column n_surviving: {label = "of these, with a wider tolerance"}
-- column what: {label = "what it says"}
SELECT list(DISTINCT seal ORDER BY seal) AS seal, replace(kind, '-', ' ') AS kind, count(*) AS n_findings,
  count(*) FILTER (WHERE survives) AS n_surviving, min(what) AS what
FROM table_reading_findings WHERE subject = 'mi325x-cookbook' GROUP BY kind ORDER BY kind
