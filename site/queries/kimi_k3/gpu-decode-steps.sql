-- title: Time between tokens against context
-- column source: {label = "from"}
-- column context: {label = "resident, longest sequence", unit = "tokens", format = "d"}
-- column gap_ms: {label = "between tokens", unit = "ms", format = ".1f"}
-- column asked: {hide = true}
-- column n_serves: {label = "serves"}
-- column relation: {label = "relation to the GPU"}
-- empty: decode against context has not run on a GPU
WITH launches AS (
  SELECT a.subject, any_value(json_extract(a.serve, '$.launch')) AS launch
  FROM artifacts AS a WHERE a.name = 'decode-context' AND a.tier = 'measured' GROUP BY a.subject
)
SELECT any_value(s.seal) AS seal,
       'H200, KV splits: ' || coalesce(json_extract_string(l.launch, '$.splits'), 'as chosen') AS source,
       CAST(round(avg(s.longest)) AS BIGINT) AS context, quantile_cont(s.gap_s, 0.5) * 1e3 AS gap_ms, count(*) AS n_serves, NULL AS relation,
       CAST(regexp_extract(s.rung, '[0-9]+') AS BIGINT) AS asked
FROM decode_law_steps AS s JOIN launches AS l ON l.subject = s.configuration
WHERE s.sequences = 1 AND json_extract_string(l.launch, '$.name') IN ('decode-one', 'decode-two', 'decode-eight', 'decode-chosen')
GROUP BY l.launch, s.rung
UNION ALL
SELECT r.seal, 'printed, ' || upper(r.platform), CAST(r.input_p99 AS BIGINT), r.itl_p50_ms, NULL, relation_between((SELECT min(seal) FROM decode_law_steps), r.seal), NULL
FROM published_agentic_replays AS r
ORDER BY source, context, gap_ms
