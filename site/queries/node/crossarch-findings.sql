-- title: Rows that contradict themselves, their workload or the hardware
-- column series: {hide = true}
-- column concurrency: {label = "concurrency"}
-- column value_low: {label = "the cells give, at least", format = ".4g"}
-- column value_high: {label = "at most", format = ".4g"}
-- column limit_low: {label = "printed or available, at least", format = ".4g"}
-- column limit_high: {label = "at most", format = ".4g"}
-- column survives: {label = "stands with a wider tolerance"}
-- column finding: {hide = true}
SELECT seal, finding, replace(kind, '-', ' ') AS kind, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, concurrency, what, value_low, value_high, limit_low, limit_high, unit,
  assuming, survives
FROM table_reading_findings WHERE subject = 'mi325x-cookbook' ORDER BY kind, series, concurrency, finding
