-- title: One pool at two slot ceilings, as printed
-- column concurrency: {label = "in flight"}
-- column shipped: {label = "output rate at the shipped ceiling"}
-- column raised: {label = "at the raised ceiling"}
SELECT a.seal, a.concurrency, a.out_tokens_per_s_printed AS shipped, b.out_tokens_per_s_printed AS raised
FROM published_decode_slots AS a
JOIN published_decode_slots AS b ON b.seal = a.seal AND b.concurrency = a.concurrency AND b.max_num_seqs > a.max_num_seqs
ORDER BY a.concurrency
