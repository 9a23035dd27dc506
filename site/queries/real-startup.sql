-- title: The engine's own KV line, and what the block law says of it
-- column role: {label = "started as"}
-- column block_tokens: {label = "block, by the law", unit = "tokens", seal = "seal_law"}
-- column printed_tokens: {label = "printed", unit = "tokens", format = "d"}
-- column predicted_tokens: {label = "by the law", unit = "tokens", format = "d", seal = "seal_law"}
-- column printed_concurrency: {label = "printed concurrency", unit = "×", format = ".2f"}
-- column predicted_concurrency: {label = "by the law", unit = "×", format = ".2f", seal = "seal_law"}
-- column n_serves: {hide = true}
-- empty: no real engine has been started yet
-- The law is written from the engine's source and was not fitted to any of these lines.
SELECT p.seal, l.seal AS seal_law, json_extract_string(a.serve, '$.models[0]') AS model,
       'vLLM ' || json_extract_string(a.serve, '$.engine.version') AS engine,
       CASE WHEN json_extract_string(a.parameters, '$.launch.flags') LIKE '%kv_producer%' THEN 'prefill'
            WHEN json_extract_string(a.parameters, '$.launch.flags') LIKE '%kv_consumer%' THEN 'decode'
            ELSE 'one engine' END AS role,
       l.block_tokens, p.tokens AS printed_tokens, l.predicted_tokens, p.concurrency AS printed_concurrency,
       l.predicted_concurrency, relation_by(false, false, false) AS relation, a.serves AS n_serves
FROM engine_start_pools AS p
JOIN artifacts AS a ON a.seal = p.seal AND a.tier = 'measured' AND a.subject NOT LIKE '%@h200%'
JOIN artifacts AS d ON d.name = 'startup-law' AND list_contains(CAST(d.inputs AS VARCHAR[]), p.seal)
JOIN startup_law_law AS l ON l.seal = d.seal AND l.pool = p.pool
ORDER BY model, role, p.seal
