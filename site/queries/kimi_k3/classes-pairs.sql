-- title: Throughput classes, printed beside the twin
-- column concurrency: {label = "in flight"}
-- column printed_out: {label = "output rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal"}
-- column twin_out: {label = "output rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column printed_total: {label = "total rate printed", unit = "tokens/s", format = ".0f", seal = "printed_seal", disputed = "disputed"}
-- column disputed: {hide = true}
-- column twin_total: {label = "total rate twin", unit = "tokens/s", format = ".0f", seal = "twin_seal"}
-- column relative_difference: {label = "output, twin minus printed, relative", format = ".1%", difference = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: this probe has not run
-- No class was used to set the twin (its constants name their sources), so all of them are held out.
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform, p.class,
       p.concurrency, p.out_tokens_per_s AS printed_out, t.out_tokens_per_s AS twin_out,
       p.total_tokens_per_s AS printed_total,
       contradicted(p.subject, replace('t5.class.tot', 'class', CASE WHEN p.class LIKE 'long%' THEN 'long' ELSE split_part(p.class, '-', 2) END) || regexp_extract(p.platform, '\d+')) AS disputed, t.total_tokens_per_s AS twin_total,
       t.out_tokens_per_s / p.out_tokens_per_s - 1 AS relative_difference, t.n_requests, b.n_serves, relation_of('twin', 'classes', concat_ws('/', p.class, p.platform), 'out_tokens_per_s') AS relation
FROM published_decode_classes AS p
JOIN best_run AS b ON b.probe = 'classes' AND b.subject = 'twin:' || p.platform
JOIN rung_rate AS t ON t.seal = b.seal AND (t.isl, t.osl, t.concurrency) = (p.isl, p.osl, p.concurrency)
ORDER BY p.isl, p.platform
