-- title: Printed levels beside the simulated node
-- column concurrency: {label = "users"}
-- column printed: {label = "printed", unit = "tokens/s", format = ".0f"}
-- column simulated: {label = "roofline", unit = "tokens/s", format = ".0f"}
-- column error: {label = "roofline over printed, less one", format = ".0%", difference = true}
SELECT seal, concurrency, printed, simulated, error, relation
FROM level_fidelity_cells WHERE subject = 'tiny-lab' AND variant = 'roofline' ORDER BY concurrency
