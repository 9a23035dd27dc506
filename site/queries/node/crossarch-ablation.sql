-- title: Two launches compared over restarts
-- column subject: {hide = true}
-- column changed: {label = "B differs in", kind = "code"}
-- column concurrency: {label = "concurrency"}
-- column n_a: {label = "serves of A"}
-- column n_b: {label = "serves of B"}
-- column rate_a: {label = "A", unit = "tokens/s", format = ".1f"}
-- column rate_b: {label = "B", unit = "tokens/s", format = ".1f"}
-- column effect: {label = "B over A, less one", format = ".2%"}
-- column effect_low: {label = "interval from", format = ".2%"}
-- column effect_high: {label = "to", format = ".2%"}
-- column said: {label = "rate"}
-- column cv_factor: {label = "a ratio of spreads must exceed", format = ".2f"}
-- column variability: {label = "spread"}
-- empty: no comparison has run
SELECT seal, subject, split_part(side_b, '?', 2) AS changed, split_part(split_part(side_a, '/', 2), '?', 1) AS model, concurrency,
  n_a, n_b, rate_a, rate_b, effect, effect_low, effect_high, standing AS said, cv_factor, variability
FROM ablation_effect_effect WHERE contains(side_a, '-1n/') ORDER BY subject, concurrency, seal
