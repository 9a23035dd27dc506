-- title: Throughput classes, as printed
-- column isl: {label = "input", unit = "tokens"}
-- column osl: {label = "output", unit = "tokens"}
-- column concurrency: {label = "in flight"}
-- column out_rate: {label = "output rate", unit = "tokens/s", format = "d"}
-- column total_rate: {label = "total rate", unit = "tokens/s", format = "d"}
SELECT seal, class, upper(platform) AS platform, isl, osl, concurrency, CAST(out_tokens_per_s AS BIGINT) AS out_rate,
       CAST(total_tokens_per_s AS BIGINT) AS total_rate
FROM published_decode_classes
ORDER BY isl, platform
