-- title: Needles of a small trained model on the GPU
-- column model: {label = "model", kind = "code"}
-- column context: {label = "context", unit = "tokens", format = "d"}
-- column n_requests: {label = "needles"}
-- column hits: {label = "recalled"}
-- column leaks: {label = "needles of others"}
-- column others: {label = "cut short, or no needle of this run"}
-- column passed: {label = "gate passed"}
-- empty: no small real model has run on a GPU
SELECT n.seal, json_extract_string(a.serve, '$.models[0]') AS model, CAST(json_extract(a.parameters, '$.context') AS BIGINT) AS context, count(*) AS n_requests,
       count(*) FILTER (n.outcome = 'hit') AS hits, count(*) FILTER (n.outcome = 'leak') AS leaks,
       count(*) FILTER (n.outcome NOT IN ('hit', 'leak')) AS others, a.verdict_ok AS passed
FROM needle_gate_needles AS n JOIN artifacts AS a ON a.seal = n.seal AND a.tier = 'measured'
WHERE a.subject LIKE '%smollm2-135m@h200' GROUP BY ALL ORDER BY context, n.seal
