-- title: Gates of this serve
-- column context: {label = "context", unit = "tokens", format = "d"}
-- column n_requests: {label = "needles"}
-- column hits: {label = "recalled"}
-- column leaks: {label = "needles of others"}
-- column passed: {label = "passed"}
-- empty: no gate was run
SELECT n.seal, CAST(json_extract(a.parameters, '$.context') AS BIGINT) AS context, count(*) AS n_requests,
       count(*) FILTER (outcome = 'hit') AS hits, count(*) FILTER (outcome IN ('leak', 'foreign')) AS leaks, a.verdict_ok AS passed
FROM needle_gate_needles AS n JOIN artifacts AS a ON a.seal = n.seal
GROUP BY n.seal, a.parameters, a.verdict_ok ORDER BY n.seal
