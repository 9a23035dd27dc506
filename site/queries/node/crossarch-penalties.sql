-- title: What spread costs
-- column cov_low: {label = "coefficient of variation, from", format = ".1%"}
-- column cov_high: {label = "to", format = ".1%"}
-- column reserve_low: {label = "capacity to hold, from", unit = "x", format = ".3f"}
-- column reserve_high: {label = "to", unit = "x", format = ".3f"}
SELECT seal, model, condition, restarts, cov_low, cov_high, reserve_low, reserve_high
FROM cost_law_penalties WHERE subject = 'mi325x-cookbook' ORDER BY model, condition
