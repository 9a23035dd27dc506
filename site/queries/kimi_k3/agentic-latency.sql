-- title: Replay latency against input length
-- column source: {label = "from"}
-- column profile: {label = "corpus"}
-- column concurrency: {label = "users"}
-- column input_tokens: {label = "input length, printed", unit = "tokens", format = "d"}
-- column seconds: {label = "time", unit = "s", format = ".3g"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {label = "turns"}
-- empty: the fidelity table has not run
-- The slope is the printed k, a line that knows no context. Twin points stand at the printed input length.
WITH cells AS (
  SELECT f.seal, f.platform, f.cell, f.simulated, f.quantity AS printed_column,
         CASE f.quantity WHEN 'ttft_p50_s' THEN 'first token' ELSE 'between tokens' END AS quantity,
         CASE f.quantity WHEN 'itl_p50_ms' THEN f.simulated / 1000 ELSE f.simulated END AS seconds
  FROM twin_fidelity_cells AS f WHERE f.quantity IN ('ttft_p50_s', 'itl_p50_ms') AND f.simulated IS NOT NULL
)
SELECT [r.seal] AS seal, 'printed' AS source, upper(r.platform) AS platform, r.profile, r.concurrency, CAST(r.input_p99 AS BIGINT) AS input_tokens,
       u.quantity, u.seconds, relation_of('twin', 'replays', concat_ws('/', r.platform, r.profile, r.concurrency), u.printed_column) AS relation,
       r.requests AS n_requests
FROM published_agentic_replays AS r,
LATERAL (VALUES ('first token', r.ttft_p50_s, 'ttft_p50_s'), ('between tokens', r.itl_p50_ms / 1000, 'itl_p50_ms')) AS u(quantity, seconds, printed_column)
UNION ALL
SELECT [r.seal, w.seal], 'slope k', upper(r.platform), r.profile, r.concurrency, CAST(r.input_p99 AS BIGINT), 'between tokens', w.k_ms_per_token / 1000, NULL, NULL
FROM published_agentic_replays AS r JOIN published_decode_wall_law AS w ON w.platform = r.platform
UNION ALL
SELECT [r.seal, c.seal], 'twin', upper(r.platform), r.profile, r.concurrency, CAST(r.input_p99 AS BIGINT), c.quantity, c.seconds,
       relation_of('twin', 'replays', concat_ws('/', r.platform, r.profile, r.concurrency), c.printed_column), NULL
FROM published_agentic_replays AS r
JOIN cells AS c ON c.platform = r.platform AND c.cell = r.profile || ', con ' || CAST(r.concurrency AS VARCHAR)
ORDER BY quantity, source, platform, input_tokens, profile, concurrency
