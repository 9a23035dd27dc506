-- title: Steps of the ladders on this serve
-- column probe: {hide = true}
-- column step: {label = "step", kind = "code"}
-- column n_requests: {label = "requests"}
-- column wall_s: {label = "wall", unit = "s", format = ".2f"}
-- column requests_per_s: {label = "requests", unit = "requests/s", format = ".2f"}
-- column output_rate: {label = "output", unit = "tokens/s", format = ".1f"}
-- column input_rate: {label = "input", unit = "tokens/s", format = ".1f"}
-- column per_user: {label = "per user", unit = "tokens/s", format = ".1f"}
-- column ttft_mean_s: {label = "TTFT, mean", unit = "s", format = ".3f", n = "n_requests"}
-- column ttft_p50_s: {label = "TTFT p50", unit = "s", format = ".3f", n = "n_requests"}
-- column ttft_p90_s: {label = "TTFT p90", unit = "s", format = ".3f", n = "n_requests"}
-- column ttft_p99_s: {label = "TTFT p99", unit = "s", format = ".3f", n = "n_requests"}
-- column tpot_mean_ms: {label = "TPOT, mean", unit = "ms", format = ".1f", n = "n_requests"}
-- column tpot_p50_ms: {label = "TPOT p50", unit = "ms", format = ".1f", n = "n_requests"}
-- column tpot_p90_ms: {label = "TPOT p90", unit = "ms", format = ".1f", n = "n_requests"}
-- column tpot_p99_ms: {label = "TPOT p99", unit = "ms", format = ".1f", n = "n_requests"}
-- column e2e_p50_s: {label = "end to end, p50", unit = "s", format = ".2f", n = "n_requests"}
-- column e2e_p90_s: {label = "end to end, p90", unit = "s", format = ".2f", n = "n_requests"}
-- empty: this ladder was not run
-- Of several runs the newest that is valid is shown; all of them stand in serve-runs.
-- TTFT is left out of steps whose client was too late for it. A quantile q takes n (1 - q) of at least five requests, the median ten.
WITH chosen AS (
  SELECT seal FROM artifacts WHERE kind = 'probe'
  QUALIFY row_number() OVER (PARTITION BY name ORDER BY verdict_ok DESC, json_extract_string(serve, '$.at') DESC NULLS LAST, seal) = 1
), timed AS (
  SELECT r.probe, r.seal, split_part(r.wave, '#', 1) AS step, r.wave, g.position, g.wall_s, r.completion_tokens, r.prompt_tokens,
         CASE WHEN l.rung IS NULL THEN r.ttft_s END AS ttft, r.e2e_s AS e2e,
         CASE WHEN r.events > 1 AND r.completion_tokens > 1 THEN (r.done_ns - r.first_token_ns) / 1e6 / (r.completion_tokens - 1) END AS tpot
  FROM all_requests AS r JOIN all_rungs AS g ON g.seal = r.seal AND g.rung = r.wave AND g.measured AND g.valid
  LEFT JOIN late_rungs AS l ON l.probe = g.probe AND l.seal = g.seal AND l.rung = g.rung
  WHERE r.probe IN ('latency', 'envelope', 'saturation', 'osl-sweep') AND r.outcome = 'completed' AND r.seal IN (SELECT seal FROM chosen)
), walls AS (
  SELECT probe, seal, step, sum(CAST(round(wall_s * 1e9) AS BIGINT)) / 1e9 AS wall_s FROM (SELECT DISTINCT probe, seal, step, wave, wall_s FROM timed) GROUP BY ALL
)
SELECT t.seal, t.probe, t.step, count(*) AS n_requests, w.wall_s / count(DISTINCT t.wave) AS wall_s, count(*) / w.wall_s AS requests_per_s,
       sum(completion_tokens) / w.wall_s AS output_rate, sum(prompt_tokens) / w.wall_s AS input_rate,
       CASE WHEN count(tpot) >= 10 THEN 1000 / quantile_cont(tpot, 0.5) END AS per_user,
       avg(ttft) AS ttft_mean_s, CASE WHEN count(ttft) >= 10 THEN quantile_cont(ttft, 0.5) END AS ttft_p50_s,
       CASE WHEN count(ttft) >= 50 THEN quantile_cont(ttft, 0.9) END AS ttft_p90_s, CASE WHEN count(ttft) >= 500 THEN quantile_cont(ttft, 0.99) END AS ttft_p99_s,
       avg(tpot) AS tpot_mean_ms, CASE WHEN count(tpot) >= 10 THEN quantile_cont(tpot, 0.5) END AS tpot_p50_ms,
       CASE WHEN count(tpot) >= 50 THEN quantile_cont(tpot, 0.9) END AS tpot_p90_ms, CASE WHEN count(tpot) >= 500 THEN quantile_cont(tpot, 0.99) END AS tpot_p99_ms,
       CASE WHEN count(*) >= 10 THEN quantile_cont(e2e, 0.5) END AS e2e_p50_s, CASE WHEN count(*) >= 50 THEN quantile_cont(e2e, 0.9) END AS e2e_p90_s
FROM timed AS t JOIN walls AS w ON w.probe = t.probe AND w.seal = t.seal AND w.step = t.step
GROUP BY t.seal, t.probe, t.step, w.wall_s ORDER BY t.probe, t.seal, min(t.position)
