-- title: The cheapest level within a latency limit
-- column series: {hide = true}
-- column p99_limit_s: {label = "slowest request may take", unit = "s", format = ".0f", statistic = ""}
-- column concurrency: {label = "cheapest concurrency"}
-- column p99: {label = "its p99", unit = "s", format = ".1f", statistic = ""}
-- column total_low: {label = "total, from", unit = "$/M", format = ".2f"}
-- column total_high: {label = "to", unit = "$/M", format = ".2f"}
-- column output_low: {label = "output, from", unit = "$/M", format = ".2f"}
-- column output_high: {label = "to", unit = "$/M", format = ".2f"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, p99_limit_s, concurrency, p99_s AS p99, usd_per_million_total_low AS total_low, usd_per_million_total_high AS total_high,
  usd_per_million_output_low AS output_low, usd_per_million_output_high AS output_high
FROM cost_law_sla WHERE subject = 'mi325x-cookbook' AND tokens = 'text' ORDER BY series, p99_limit_s
