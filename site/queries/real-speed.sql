-- title: What the clock said on shared cores
-- column path: {label = "asked through"}
-- column shape: {label = "tokens in / out"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "requests"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column plateau: {label = "really in flight", format = ".1f"}
-- column n_serves: {hide = true}
-- empty: no real engine has run a ladder yet
WITH rungs AS (
  SELECT seal, 'osl-sweep' AS probe, concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens,
         wall_s, in_flight_plateau FROM osl_sweep_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'envelope', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM envelope_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'latency', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM latency_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'classes', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM classes_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'saturation', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM saturation_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'slots', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM slots_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'ablation', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM ablation_rungs WHERE measured AND valid
  UNION ALL
  SELECT seal, 'capacity-grid', concurrency, prompt_tokens_target, output_tokens_target, completed, completion_tokens, wall_s,
         in_flight_plateau FROM capacity_grid_rungs WHERE measured AND valid
)
SELECT r.seal, json_extract_string(a.serve, '$.models[0]') AS model,
       CASE WHEN json_extract(a.serve, '$.behind') IS NULL THEN 'one engine' ELSE 'router, prefill, decode' END AS path, r.probe,
       r.prompt_tokens_target || ' / ' || r.output_tokens_target AS shape, r.concurrency,
       CAST(sum(r.completed) AS BIGINT) AS n_requests,
       sum(r.completion_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS tokens_per_s,
       min(r.in_flight_plateau) AS plateau,
       CASE WHEN json_extract_string(a.verdict, '$.tainted') = 'true' THEN 'none: tainted' ELSE 'passed' END AS gate, a.serves AS n_serves
FROM rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.tier = 'measured'
GROUP BY r.seal, a.serve, r.probe, r.prompt_tokens_target, r.output_tokens_target, r.concurrency, a.verdict, a.serves
ORDER BY model, path, r.probe, r.seal, r.concurrency, r.output_tokens_target
