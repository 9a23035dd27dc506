-- title: How far recall goes
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column hits: {label = "recalled"}
-- column furthest: {label = "recalled up to", unit = "tokens"}
-- column natural: {label = "ended by themselves"}
-- column n_serves: {label = "serves"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
SELECT list(DISTINCT r.seal ORDER BY r.seal) AS seal, CASE WHEN starts_with(r.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, r.subject, count(*) AS needles,
       count(*) FILTER (r.outcome = 'hit') AS hits, max(r.context) FILTER (r.outcome = 'hit') AS furthest,
       count(*) FILTER (r.natural_stop) AS "natural",
       count(DISTINCT json_extract_string(a.serve, '$.id')) AS n_serves,
       CASE WHEN count(DISTINCT json_extract_string(a.serve, '$.id')) = 1 THEN 'seen on one serve'
            ELSE 'seen on several serves' END AS standing, count(*) AS n_requests
FROM niah_ladder_recall AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
GROUP BY r.subject
ORDER BY r.subject
