-- title: The arithmetic of every finding
-- column model: {hide = true}
-- column finding: {label = "finding", kind = "code"}
-- column formula: {label = "formula", kind = "code"}
-- column value_low: {label = "from", format = ".5g"}
-- column value_high: {label = "to", format = ".5g"}
SELECT s.seal, f.model, replace(f.kind, '-', ' ') AS kind, s.finding, s.step, s.what, s.formula, s.value_low, s.value_high, s.unit
FROM table_reading_steps s JOIN table_reading_findings f ON f.seal = s.seal AND f.finding = s.finding
WHERE s.subject = 'mi325x-cookbook' ORDER BY f.kind, s.finding, s.step
