-- title: Classes by the wall law
-- column published: {label = "published", unit = "tokens/s", format = "d"}
-- column bound: {label = "predicted, wall law", unit = "tokens/s", format = ".0f"}
-- column reached: {label = "share of it that is printed", format = ".0%"}
-- Both come out of printed numbers. The wall law knows no queue and no prefill, so it bounds the rate from above.
SELECT c.seal, c.class, upper(c.platform) AS platform, CAST(c.out_tokens_per_s AS BIGINT) AS published,
       c.concurrency * c.osl / (w.c0_s + w.k_s_per_token * c.osl) AS bound,
       c.out_tokens_per_s / (c.concurrency * c.osl / (w.c0_s + w.k_s_per_token * c.osl)) AS reached
FROM published_decode_classes AS c
JOIN published_decode_wall_law AS w ON w.seal = c.seal AND w.platform = c.platform
ORDER BY c.isl, c.platform
