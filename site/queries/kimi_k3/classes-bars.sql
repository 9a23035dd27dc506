-- title: Output rate by shape, printed and on the twin
-- column source: {label = "from"}
-- column out_rate: {label = "output rate", unit = "tokens/s", format = ".0f"}
-- column total_rate: {label = "total rate", unit = "tokens/s", format = ".0f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- column isl: {hide = true}
-- column label: {hide = true}
-- empty: this probe has not run
WITH twin AS (
  SELECT r.seal, r.subject, c.class, c.isl, sum(r.completed) AS n_requests,
         sum(r.completion_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS out_rate,
         sum(r.completion_tokens + r.prompt_tokens) * 1e9 / sum(CAST(round(r.wall_s * 1e9) AS BIGINT)) AS total_rate
  FROM classes_rungs AS r JOIN classes_classes AS c ON c.seal = r.seal AND c.rung = r.rung
  JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid AND regexp_full_match(r.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?')
  GROUP BY r.seal, r.subject, c.class, c.isl
  QUALIFY row_number() OVER (PARTITION BY r.subject, c.class ORDER BY sum(r.completed) DESC, r.seal) = 1
)
SELECT seal, class, upper(regexp_extract(subject, 'twin:([a-z0-9]+)', 1)) AS platform, 'twin' AS source, out_rate, total_rate,
       NULL AS relation, CAST(n_requests AS BIGINT) AS n_requests, isl, class || ', twin' AS label
FROM twin
UNION ALL
SELECT seal, class, upper(platform), 'printed', out_tokens_per_s, total_tokens_per_s,
       relation_of('twin', 'classes', concat_ws('/', class, platform), 'out_tokens_per_s'), NULL, isl, class || ', printed' FROM published_decode_classes
ORDER BY isl, platform, source
