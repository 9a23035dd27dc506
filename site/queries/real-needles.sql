-- title: Needles of a real small model
-- column form: {label = "prompt form"}
-- column context: {label = "context", unit = "tokens", format = "d"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "needles"}
-- column hits: {label = "recalled"}
-- column leaks: {label = "needles of others"}
-- column passed: {label = "gate passed"}
-- column n_serves: {hide = true}
-- empty: no real model has been asked for needles yet
SELECT n.seal, json_extract_string(a.serve, '$.models[0]') AS model,
       coalesce(json_extract_string(a.parameters, '$.form'), 'asked') AS form,
       CAST(json_extract(a.parameters, '$.context') AS BIGINT) AS context, n.concurrency, count(*) AS n_requests,
       count(*) FILTER (n.outcome = 'hit') AS hits, count(*) FILTER (n.outcome IN ('leak', 'foreign')) AS leaks,
       a.verdict_ok AS passed, a.serves AS n_serves
FROM needle_gate_needles AS n JOIN artifacts AS a ON a.seal = n.seal AND a.tier = 'measured' AND a.subject NOT LIKE '%@h200%'
GROUP BY ALL
ORDER BY model, form, context, n.seal, n.concurrency
