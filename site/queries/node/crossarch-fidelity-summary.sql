-- title: Errors of the simulated node by ladder
-- column series: {hide = true}
-- column n_cells: {label = "cells"}
-- The middle of few cells describes them and estimates nothing.
-- column middle_error: {label = "median error, either way", format = ".0%"}
-- column worst_error: {label = "worst, twin over printed, less one", format = ".0%"}
-- column worst_concurrency: {label = "at concurrency"}
-- column n_beyond: {label = "cells above the roofline"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, replace(replace(quantity, '_tokens_per_s', ' rate'), 'p99_s', 'slowest request') AS quantity, variant, n_cells,
  median_error AS middle_error, worst_error, worst_concurrency, n_beyond, relation
FROM level_fidelity_summary WHERE subject = 'mi325x-cookbook' ORDER BY series, quantity, variant
