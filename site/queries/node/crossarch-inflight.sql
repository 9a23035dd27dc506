-- title: What each level can really have had in flight
-- column series: {hide = true}
-- column concurrency: {label = "concurrency"}
-- column total: {label = "total", unit = "tokens/s", format = ".0f"}
-- column in_flight_low: {label = "in flight, at least", unit = "requests", format = ".0f"}
-- column in_flight_high: {label = "at most", unit = "requests", format = ".0f"}
-- column short: {label = "fell short by"}
-- column steady: {label = "state"}
-- column compute: {label = "of the dense peak, at least", format = ".0%"}
-- column memory_low: {label = "of the bandwidth, at least", format = ".0%"}
-- column memory_high: {label = "at most", format = ".0%"}
-- column experts: {label = "experts touched", format = ".0f"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, concurrency, total_tokens_per_s AS total, in_flight_low, in_flight_high, nullif(short, '') AS short, steady,
  compute_low AS compute, memory_low, memory_high, experts_low AS experts
FROM table_reading_levels WHERE subject = 'mi325x-cookbook' ORDER BY series, concurrency
