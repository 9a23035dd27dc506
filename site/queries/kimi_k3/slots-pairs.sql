-- title: One pool at two slot ceilings, printed beside the twin
-- column max_num_seqs: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column printed_rate: {label = "output rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal"}
-- column twin_rate: {label = "output rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column relative_difference: {label = "twin minus printed, relative", format = ".1%", difference = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- One cell, the smallest of both, is what the twin's batch term is fitted to: in-sample. The others were not.
WITH twin AS (
  SELECT r.seal, r.concurrency, r.n_requests, r.out_tokens_per_s AS rate, b.n_serves,
         coalesce(TRY_CAST(regexp_extract(r.subject, 'max_num_seqs=([0-9]+)', 1) AS BIGINT), shipped) AS max_num_seqs
  FROM best_run AS b JOIN rung_rate AS r ON r.seal = b.seal, (SELECT min(max_num_seqs) AS shipped FROM published_decode_slots)
  WHERE b.probe = 'envelope' AND starts_with(b.subject, 'twin:mi300x')
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, 'MI300X' AS platform,
       p.max_num_seqs, p.concurrency, p.out_tokens_per_s AS printed_rate, t.rate AS twin_rate,
       CASE WHEN NOT circular_of('twin', 'slots', concat_ws('/', p.concurrency, p.max_num_seqs), 'out_tokens_per_s') THEN t.rate / p.out_tokens_per_s - 1 END
         AS relative_difference,
       t.n_requests, t.n_serves,
       relation_of('twin', 'slots', concat_ws('/', p.concurrency, p.max_num_seqs), 'out_tokens_per_s') AS relation
FROM published_decode_slots AS p
JOIN twin AS t ON t.max_num_seqs = p.max_num_seqs AND t.concurrency = p.concurrency
ORDER BY p.max_num_seqs, p.concurrency
