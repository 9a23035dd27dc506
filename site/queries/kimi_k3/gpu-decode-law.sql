-- title: What a resident token costs a decode step, by launch
-- column splits: {label = "KV splits"}
-- column heads: {label = "MLA heads"}
-- column cache: {label = "cache"}
-- column mode: {label = "decode steps"}
-- column filled: {label = "context"}
-- column floor_ms: {label = "floor", unit = "ms", format = ".2f"}
-- column slope_us: {label = "per token", unit = "µs", format = ".4f"}
-- column slope_low_us: {label = "per token, low", unit = "µs", format = ".4f", interval = "serves"}
-- column slope_high_us: {label = "per token, high", unit = "µs", format = ".4f", interval = "serves"}
-- column r2: {label = "R², worst", format = ".5f", more = true}
-- column pays_for: {label = "pays for"}
-- column mixed: {label = "mixed waves that tell", more = true}
-- column error_longest: {label = "off, by the longest", format = ".1%", more = true}
-- column error_total: {label = "off, by the sum", format = ".1%", more = true}
-- column n_serves: {label = "serves"}
-- column launch: {hide = true}
-- empty: decode against context has not run on a GPU
WITH launches AS (
  SELECT a.subject, any_value(json_extract(a.serve, '$.launch')) AS launch
  FROM artifacts AS a WHERE a.name = 'decode-context' AND a.tier = 'measured' GROUP BY a.subject
)
SELECT w.seal, json_extract_string(l.launch, '$.name') AS launch,
       coalesce(json_extract_string(l.launch, '$.splits'), 'as chosen') AS splits,
       CAST(json_extract_string(l.launch, '$.mla_heads') AS BIGINT) AS heads, json_extract_string(l.launch, '$.kv_dtype') AS cache,
       CASE WHEN json_array_length(l.launch, '$.graphs') > 0 THEN 'CUDA graphs' ELSE 'eager' END AS mode,
       CASE WHEN json_extract_string(l.launch, '$.fill') = 'true' THEN 'filled' ELSE 'prefilled' END AS filled,
       w.floor_s * 1e3 AS floor_ms, w.slope_s_per_token * 1e6 AS slope_us, w.slope_low_s_per_token * 1e6 AS slope_low_us,
       w.slope_high_s_per_token * 1e6 AS slope_high_us, w.r2_worst AS r2, w.pays_for, w.mixed, w.error_longest, w.error_total,
       w.serves AS n_serves
FROM decode_law_law AS w JOIN launches AS l ON l.subject = w.configuration
ORDER BY slope_us DESC, launch
