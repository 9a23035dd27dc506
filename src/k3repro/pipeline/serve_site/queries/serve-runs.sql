-- title: Runs on this serve
-- column probe: {label = "probe", kind = "code"}
-- column subject: {label = "serve"}
-- column day: {label = "day"}
-- column tier: {label = "tier"}
-- column valid: {label = "valid"}
-- column why: {label = "why not"}
-- empty: nothing was run
SELECT seal, name AS probe, subject, coalesce(left(json_extract_string(serve, '$.at'), 10), 'simulated') AS day, tier, verdict_ok AS valid,
       coalesce(json_extract_string(verdict, '$.reasons[0]'), '') AS why
FROM artifacts WHERE kind = 'probe' ORDER BY subject, json_extract_string(serve, '$.at'), name, seal
