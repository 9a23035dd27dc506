-- title: Does a real engine repeat itself?
-- column serve: {label = "engine start", kind = "code"}
-- column path: {label = "asked through"}
-- column kind: {label = "compared with the answers at concurrency one"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "answers"}
-- column different: {label = "other tokens"}
-- column broken: {label = "break their rule"}
-- column max_dlp: {label = "log-probability moved by up to", unit = "nats", format = ".3f"}
-- column max_margin: {label = "widest margin at a parting", unit = "nats", format = ".3f"}
-- column position: {hide = true}
-- column n_serves: {hide = true}
-- empty: no real engine has run this probe yet
SELECT s.seal, coalesce(json_extract_string(a.serve, '$.models[0]'), json_extract_string(a.serve, '$.behind.decode.models[0]')) AS model,
       CASE WHEN json_extract_string(a.parameters, '$.decode') <> '' THEN 'router, prefill, decode'
            ELSE 'one engine' END AS path,
       coalesce(json_extract_string(a.serve, '$.id'), json_extract_string(a.serve, '$.behind.decode.id')) AS serve,
       CASE s.kind WHEN 'repeat' THEN 'asked again' WHEN 'concurrency' THEN 'asked together'
                   WHEN 'reuse' THEN 'asked again, slots used by others meanwhile'
                   WHEN 'direct' THEN 'decode engine asked directly, no hand-off'
                   WHEN 'swap' THEN 'swap: decode told another prompt'
                   WHEN 'swap-own' THEN 'the other prompt itself (must differ)' END AS kind,
       r.concurrency, count(*) AS n_requests, count(s.first_difference) AS different,
       count(*) FILTER (NOT s.ok) AS broken, max(s.dlp) AS max_dlp, max(s.margin) AS max_margin,
       r.position, a.serves AS n_serves
FROM self_consistency_sequences AS s
JOIN artifacts AS a ON a.seal = s.seal AND a.tier = 'measured'
JOIN self_consistency_rungs AS r ON r.seal = s.seal AND r.rung = s.wave
WHERE s.kind NOT IN ('reference', 'churn')
GROUP BY ALL
ORDER BY model, path, s.seal, r.position
