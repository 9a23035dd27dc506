-- title: One pool at two slot ceilings, printed beside the twin
-- column max_num_seqs: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column printed_rate: {label = "output rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal"}
-- column twin_rate: {label = "output rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column relative_difference: {label = "twin minus printed, relative", format = ".1%", difference = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- One cell, the smallest of both, is what the twin's batch term is fitted to: in-sample. The others were not.
-- Of several runs on a target the one with the most requests is shown; a run that is not valid or tainted never is.
-- Integer sums: the order of rows must not move a digit.
WITH chosen AS (
  SELECT r.seal FROM envelope_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
  WHERE r.measured AND r.valid GROUP BY r.seal, r.subject
  QUALIFY row_number() OVER (PARTITION BY r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1
), twin AS (
  SELECT seal, subject, concurrency, sum(completed) AS n_requests,
         sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS rate,
         coalesce(CAST(nullif(regexp_extract(subject, 'max_num_seqs=([0-9]+)', 1), '') AS BIGINT), shipped) AS max_num_seqs
  FROM envelope_rungs, (SELECT min(max_num_seqs) AS shipped FROM published_decode_slots)
  WHERE measured AND valid AND seal IN (SELECT seal FROM chosen) AND starts_with(subject, 'twin:mi300x') GROUP BY ALL
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, 'MI300X' AS platform,
       p.max_num_seqs, p.concurrency, p.out_tokens_per_s AS printed_rate, t.rate AS twin_rate,
       CASE WHEN NOT (p.concurrency = 32 AND p.max_num_seqs = 8) THEN t.rate / p.out_tokens_per_s - 1 END
         AS relative_difference,
       CAST(t.n_requests AS BIGINT) AS n_requests, (SELECT serves FROM artifacts AS s WHERE s.seal = t.seal) AS n_serves,
       CASE WHEN p.concurrency = 32 AND p.max_num_seqs = 8 THEN 'in-sample' ELSE 'held-out' END AS relation
FROM published_decode_slots AS p
JOIN twin AS t ON t.max_num_seqs = p.max_num_seqs AND t.concurrency = p.concurrency
ORDER BY p.max_num_seqs, p.concurrency
