-- title: Every published cell beside the simulated node
-- column series: {hide = true}
-- column concurrency: {label = "concurrency"}
-- column in_flight: {label = "in flight"}
-- column requests: {label = "requests"}
-- column assumed: {label = "requests are"}
-- column printed: {label = "printed", format = ".4g"}
-- column simulated: {label = "twin", format = ".4g"}
-- column error: {label = "twin over printed, less one", format = ".0%", difference = true}
-- column beyond: {label = "above the roofline"}
-- column why: {label = "why not"}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, concurrency, in_flight, requests, CASE WHEN requests_printed THEN 'printed' ELSE 'assumed, one a user' END AS assumed,
  replace(replace(quantity, '_tokens_per_s', ' rate'), 'p99_s', 'slowest request') AS quantity, variant, printed, simulated, unit, error,
  CASE WHEN beyond THEN 'yes' END AS beyond, why, relation
FROM level_fidelity_cells WHERE subject = 'mi325x-cookbook' ORDER BY series, concurrency, quantity, variant
