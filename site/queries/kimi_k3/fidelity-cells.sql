-- title: Held-out cells, printed beside the twin
-- column source: {label = "where"}
-- column printed: {label = "printed", format = ".4g"}
-- column simulated: {label = "twin", format = ".4g"}
-- column error: {label = "twin over printed, less one", format = ".1%", difference = true}
-- column implied_output: {label = "tokens back, by its row", format = ".0f"}
-- column asked_output: {label = "tokens asked", format = "d"}
-- column contradicted: {label = "disagrees with its row"}
-- column why: {label = "why it is off, or silent"}
-- empty: the fidelity table has not run
SELECT seal, upper(platform) AS platform, source, cell, regime, quantity, unit, printed, simulated, error,
       implied_output, asked_output,
       CASE WHEN contradicted IS NULL THEN NULL ELSE 'yes' END AS contradicted, why, relation
FROM twin_fidelity_cells WHERE error IS NOT NULL OR simulated IS NULL ORDER BY source, platform DESC, cell, quantity
