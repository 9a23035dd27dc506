-- title: Figures that follow from others
-- column formula: {label = "from", kind = "code"}
-- column value_low: {label = "recomputed, at least", format = ".4g"}
-- column value_high: {label = "at most", format = ".4g"}
SELECT seal, what, nullif(model, '') AS model, formula, printed, value_low, value_high, unit, verdict
FROM table_reading_totals WHERE subject = 'mi325x-cookbook' ORDER BY what, model
