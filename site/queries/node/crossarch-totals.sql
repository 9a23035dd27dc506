-- title: Figures that follow from others
-- column what: {label = "what"}
-- column model: {label = "model"}
-- column formula: {label = "from", kind = "code"}
-- column printed: {label = "printed"}
-- column value_low: {label = "recomputed, at least", format = ".4g"}
-- column value_high: {label = "at most", format = ".4g"}
-- column unit: {label = "unit"}
-- column verdict: {label = "verdict"}
SELECT seal, what, nullif(model, '') AS model, formula, printed, value_low, value_high, unit, verdict
FROM table_reading_totals WHERE subject = 'mi325x-cookbook' ORDER BY what, model
