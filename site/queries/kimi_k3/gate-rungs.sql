-- title: The gate, wave by wave
-- column subject: {label = "target"}
-- column seed: {label = "seed", kind = "code"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "needles"}
-- column hits: {label = "recalled"}
-- column target_tokens: {label = "tokens asked", format = "d"}
-- column fewest_tokens: {label = "fewest counted", format = "d"}
-- column most_tokens: {label = "most counted", format = "d"}
-- column plateau: {label = "really in flight", format = ".1f"}
-- Small models on CPU cores have a page of their own, as in `gates`.
SELECT n.seal, n.subject, json_extract_string(any_value(a.parameters), '$.seed') AS seed, n.concurrency, count(*) AS n_requests, count(*) FILTER (n.outcome = 'hit') AS hits,
       any_value(g.prompt_tokens_target) AS target_tokens, min(r.prompt_tokens) AS fewest_tokens,
       max(r.prompt_tokens) AS most_tokens, any_value(g.in_flight_plateau) AS plateau
FROM needle_gate_needles AS n
JOIN needle_gate_requests AS r ON r.seal = n.seal AND r.request_id = n.request_id
JOIN needle_gate_rungs AS g ON g.seal = n.seal AND g.rung = n.wave
JOIN artifacts AS a ON a.seal = n.seal
WHERE NOT (a.tier = 'measured' AND starts_with(coalesce(json_extract_string(a.serve, '$.models[0]'), ''), 'tiny-'))
GROUP BY n.seal, n.subject, n.wave, n.concurrency
ORDER BY n.subject, seed, n.seal, n.concurrency, n.wave
