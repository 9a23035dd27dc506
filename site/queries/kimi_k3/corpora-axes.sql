-- title: The generated corpus on every axis of its profile
-- column axis: {label = "axis", kind = "code"}
-- column declared: {label = "declared", format = ".3g"}
-- column generated: {label = "generated", format = ".3g"}
-- column low: {label = "allowed from", format = ".3g"}
-- column high: {label = "allowed to", format = ".3g"}
-- empty: this probe has not run
WITH newest AS (
  SELECT r.seal, r.corpus, a.verdict FROM agentic_replay AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  QUALIFY row_number() OVER (PARTITION BY r.corpus ORDER BY r.completed DESC, r.seal) = 1
), axes AS (
  SELECT seal, corpus, unnest(from_json(json_extract(verdict, '$.axes'), '["JSON"]')) AS axis FROM newest
)
SELECT seal, corpus AS profile, json_extract_string(axis, '$.name') AS axis, CAST(json_extract(axis, '$.declared') AS DOUBLE) AS declared,
       CAST(json_extract(axis, '$.measured') AS DOUBLE) AS generated, CAST(json_extract(axis, '$.low') AS DOUBLE) AS low,
       CAST(json_extract(axis, '$.high') AS DOUBLE) AS high,
       CASE json_extract_string(axis, '$.ok') WHEN 'true' THEN 'yes' ELSE 'no' END AS inside
FROM axes
ORDER BY profile, axis
