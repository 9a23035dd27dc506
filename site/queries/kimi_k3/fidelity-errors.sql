-- title: Errors of held-out cells
-- column source: {label = "where"}
-- column error: {label = "twin over printed, less one", format = ".0%", difference = true}
-- empty: the fidelity table has not run
SELECT seal, source, regime, upper(platform) AS platform, cell, quantity, error, relation
FROM twin_fidelity_cells WHERE error IS NOT NULL
ORDER BY regime, source, platform, cell, quantity
