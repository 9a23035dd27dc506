-- title: Waves of unlike lengths: does a step pay for the longest sequence or for the sum?
-- column splits: {label = "KV splits"}
-- column wave: {label = "wave"}
-- column longest: {label = "longest", unit = "tokens", format = "d"}
-- column total: {label = "sum", unit = "tokens", format = "d"}
-- column gap_ms: {label = "between tokens", unit = "ms", format = ".1f"}
-- column by_longest_ms: {label = "line at the longest", unit = "ms", format = ".1f"}
-- column by_total_ms: {label = "line at the sum", unit = "ms", format = ".1f"}
-- column n_serves: {label = "serves"}
-- empty: decode against context has not run on a GPU
WITH launches AS (
  SELECT a.subject, any_value(json_extract(a.serve, '$.launch')) AS launch
  FROM artifacts AS a WHERE a.name = 'decode-context' AND a.tier = 'measured' GROUP BY a.subject
)
SELECT any_value(s.seal) AS seal, coalesce(json_extract_string(l.launch, '$.splits'), 'as chosen') AS splits,
       replace(s.rung, 'mixed=', '') AS wave, CAST(round(avg(s.longest)) AS BIGINT) AS longest, CAST(round(avg(s.total)) AS BIGINT) AS total,
       quantile_cont(s.gap_s, 0.5) * 1e3 AS gap_ms, quantile_cont(s.by_longest_s, 0.5) * 1e3 AS by_longest_ms,
       quantile_cont(s.by_total_s, 0.5) * 1e3 AS by_total_ms, count(*) AS n_serves
FROM decode_law_steps AS s JOIN launches AS l ON l.subject = s.configuration
WHERE s.sequences > 1 AND json_extract_string(l.launch, '$.name') IN ('decode-one', 'decode-two', 'decode-eight', 'decode-chosen')
GROUP BY l.launch, s.rung
ORDER BY splits, total, wave
