-- title: Where the simulated ladders stop paying
-- column shape: {label = "input/output", kind = "code"}
-- column knee: {label = "knee of the twin", unit = "users"}
-- column users: {label = "most users", unit = "users"}
-- column rate: {label = "output rate there", unit = "tokens/s", format = ".0f"}
-- empty: this probe has not run
SELECT p.seal, split_part(p.subject, '/', 2) AS model, p.shape,
  CAST(json_extract(any_value(a.verdict), '$.knees."' || p.shape || '"') AS BIGINT) AS knee, max(p.users) AS users,
  max(p.output_tokens_per_s) AS rate, json_extract_string(any_value(a.verdict), '$.standing') AS standing
FROM saturation_points AS p JOIN artifacts AS a ON a.seal = p.seal AND a.verdict_ok
WHERE contains(p.subject, '-1n/') GROUP BY p.seal, p.subject, p.shape ORDER BY p.subject, p.shape, p.seal
