-- title: How long requests really were
-- column series: {hide = true}
-- column stated_length: {label = "stated, prompt and reply", unit = "tokens"}
-- column length_low: {label = "inferred, at least", unit = "tokens", format = ".0f"}
-- column length_high: {label = "at most", unit = "tokens", format = ".0f"}
-- column stated_output: {label = "stated reply", unit = "tokens"}
-- column output_length_low: {label = "inferred reply, at least", unit = "tokens", format = ".0f"}
-- column output_length_high: {label = "at most", unit = "tokens", format = ".0f"}
-- column cap_low: {label = "in flight where it fell short, at least", unit = "requests", format = ".0f"}
-- column cap_high: {label = "at most", unit = "requests", format = ".0f"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, stated_length, length_low, length_high, stated_output, output_length_low, output_length_high, cap_low, cap_high
FROM table_reading_inferred WHERE subject = 'mi325x-cookbook' AND (length_low IS NOT NULL OR cap_low IS NOT NULL) ORDER BY series
