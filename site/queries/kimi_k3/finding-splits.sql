-- title: Time between tokens at long context on a GPU, by KV splits
-- column what: {label = "KV splits"}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- column number: {label = "between tokens", unit = "ms", format = ".1f"}
-- empty: decode against context has not run on a GPU
WITH launches AS (
  SELECT a.subject, any_value(json_extract(a.serve, '$.launch')) AS launch
  FROM artifacts AS a WHERE a.name = 'decode-context' AND a.tier = 'measured' GROUP BY a.subject
), rows AS (
  SELECT any_value(s.seal) AS seal, coalesce(json_extract_string(l.launch, '$.splits'), 'as chosen') AS splits, quantile_cont(s.gap_s, 0.5) * 1e3 AS number
  FROM decode_law_steps AS s JOIN launches AS l ON l.subject = s.configuration
  WHERE s.rung = 'context=200000' AND json_extract_string(l.launch, '$.name') IN ('decode-one', 'decode-chosen')
  GROUP BY l.launch
)
SELECT seal, 'KV splits: ' || splits AS what, 'measured' AS source, number, max(number) OVER () > 2 * min(number) OVER () AS holds
FROM rows ORDER BY number DESC
