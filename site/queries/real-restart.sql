-- title: The same prompts before and after a restart
-- column n_requests: {label = "prompts"}
-- column same: {label = "same tokens and log-probabilities"}
-- column n_serves: {label = "serves"}
-- empty: no real engine has been restarted for this yet
SELECT r.seal, json_extract_string(any_value(b.serve), '$.models[0]') AS model, count(DISTINCT r.prompt) AS n_requests,
       count(DISTINCT r.prompt) FILTER (r.ok) AS same, any_value(a.serves) AS n_serves
FROM self_consistency_restart_restart AS r
JOIN artifacts AS a ON a.seal = r.seal
JOIN artifacts AS b ON list_contains(CAST(a.inputs AS VARCHAR[]), b.seal)
GROUP BY r.seal
ORDER BY model, r.seal
