-- title: Published levels, as printed
-- column series: {hide = true}
-- column concurrency: {label = "concurrency"}
-- column total: {label = "total", unit = "tokens/s"}
-- column output: {label = "output", unit = "tokens/s"}
-- column p99: {label = "slowest, p99", unit = "s", statistic = ""}
-- column gpus: {label = "GPUs"}
-- column tokens: {label = "rates count"}
SELECT l.seal, s.model, replace(replace(l.series, s.model || '/', ''), 'validation', 'quick mode') AS ladder, l.series, l.concurrency, l.total_tokens_per_s_printed AS total, l.output_tokens_per_s_printed AS output,
  l.p99_s_printed AS p99, s.gpus, s.tokens, nullif(l.range, '') AS range
FROM published_levels_levels l JOIN published_levels_series s ON s.seal = l.seal AND s.series = l.series
WHERE l.subject = 'mi325x-cookbook' ORDER BY l.series, l.concurrency
