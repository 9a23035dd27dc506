-- title: What the clock said on shared cores
-- column path: {label = "asked through"}
-- column shape: {label = "tokens in / out"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "requests"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column plateau: {label = "really in flight", format = ".1f"}
-- column n_serves: {hide = true}
-- empty: no real engine has run a ladder yet
SELECT r.seal, json_extract_string(a.serve, '$.models[0]') AS model,
       CASE WHEN json_extract(a.serve, '$.behind') IS NULL THEN 'one engine' ELSE 'router, prefill, decode' END AS path, r.probe,
       r.isl || ' / ' || r.osl AS shape, r.concurrency, r.n_requests, r.out_tokens_per_s AS tokens_per_s, r.in_flight_plateau AS plateau,
       CASE WHEN json_extract_string(a.verdict, '$.tainted') = 'true' THEN 'none: tainted' ELSE 'passed' END AS gate, a.serves AS n_serves
FROM rung_rate AS r JOIN artifacts AS a ON a.seal = r.seal
WHERE r.tier = 'measured' AND a.subject NOT LIKE '%@h200%'
  AND r.probe IN ('osl-sweep', 'envelope', 'latency', 'classes', 'saturation', 'slots', 'ablation', 'capacity-grid')
ORDER BY model, path, r.probe, r.seal, r.concurrency, r.osl, r.isl
