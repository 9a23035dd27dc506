-- title: Throughput classes, as printed
-- column isl: {label = "input", unit = "tokens"}
-- column osl: {label = "output", unit = "tokens"}
-- column concurrency: {label = "in flight"}
-- column out_rate: {label = "output rate", unit = "tokens/s", format = "d"}
-- column total_rate: {label = "total rate", unit = "tokens/s", format = "d", disputed = "disputed"}
-- column disputed: {hide = true}
SELECT seal, class, upper(platform) AS platform, isl, osl, concurrency, CAST(out_tokens_per_s AS BIGINT) AS out_rate,
       CAST(total_tokens_per_s AS BIGINT) AS total_rate,
       contradicted(subject, replace('t5.class.tot', 'class', CASE WHEN class LIKE 'long%' THEN 'long' ELSE split_part(class, '-', 2) END) || regexp_extract(platform, '\d+')) AS disputed
FROM published_decode_classes
ORDER BY isl, platform
