-- title: What the printed long rows would cost per token, beside the line of one split
-- column platform: {label = "platform"}
-- column concurrency: {label = "users"}
-- column n_requests: {label = "turns"}
-- column input_p99: {label = "input p99", unit = "tokens", format = "d"}
-- column itl_ms: {label = "between tokens, printed", unit = "ms", format = ".0f"}
-- column short_ms: {label = "at short context, printed", unit = "ms", format = ".1f"}
-- column per_token_us: {label = "per token of the longest input", unit = "µs", format = ".2f", about = "Printed time between tokens less that of the same platform at short context, over the printed input p99"}
-- column slope_us: {label = "one split, measured", unit = "µs", format = ".2f", seal = "seal_law"}
-- empty: decode against context has not run on a GPU
WITH short AS (
  SELECT platform, max(itl_p50_ms) AS itl FROM published_agentic_replays WHERE input_p99 < 10000 GROUP BY platform
)
SELECT r.seal, w.seal AS seal_law, upper(r.platform) AS platform, r.concurrency, r.requests AS n_requests, CAST(r.input_p99 AS BIGINT) AS input_p99,
       r.itl_p50_ms AS itl_ms, s.itl AS short_ms, (r.itl_p50_ms - s.itl) / r.input_p99 * 1e3 AS per_token_us,
       w.slope_s_per_token * 1e6 AS slope_us, relation_between(w.seal, r.seal) AS relation
FROM published_agentic_replays AS r JOIN short AS s ON s.platform = r.platform,
     decode_law_law AS w
WHERE r.input_p99 > 100000 AND w.configuration LIKE '%launch=decode-one'
ORDER BY r.platform, r.input_p99, r.concurrency
