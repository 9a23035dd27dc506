-- title: Where published ladders stop paying
-- column series: {hide = true}
-- column knee: {label = "knee", unit = "requests"}
-- column low: {label = "at least", unit = "requests"}
-- column high: {label = "at most", unit = "requests"}
-- column plateau: {label = "plateau", unit = "tokens/s", format = ".0f"}
-- column error: {label = "error of the rates", format = ".1%", difference = false}
-- column error_source: {label = "from"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, load, levels, "at" AS knee, low, high, plateau, error, error_source, standing
FROM roofline_knees WHERE subject = 'mi325x-cookbook' ORDER BY series, load
