-- title: Cost of a million tokens at each published level
-- column series: {hide = true}
-- column concurrency: {label = "concurrency"}
-- column gpus: {label = "GPUs"}
-- column total_low: {label = "total, from", unit = "$/M", format = ".2f"}
-- column total_high: {label = "to", unit = "$/M", format = ".2f"}
-- column output_low: {label = "output, from", unit = "$/M", format = ".2f"}
-- column output_high: {label = "to", unit = "$/M", format = ".2f"}
-- column input_low: {label = "input, from", unit = "$/M", format = ".2f"}
-- column input_high: {label = "to", unit = "$/M", format = ".2f"}
-- column findings: {label = "the row is contradicted by"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, concurrency, gpus, usd_per_million_total_low AS total_low, usd_per_million_total_high AS total_high,
  usd_per_million_output_low AS output_low, usd_per_million_output_high AS output_high, usd_per_million_input_low AS input_low,
  usd_per_million_input_high AS input_high, nullif(array_to_string(findings, ', '), '') AS findings
FROM cost_law_costs WHERE subject = 'mi325x-cookbook' AND tokens = 'text' ORDER BY series, concurrency
