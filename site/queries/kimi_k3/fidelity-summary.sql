-- title: Errors of held-out cells by table and regime
-- column source: {label = "where"}
-- column n_cells: {label = "cells"}
-- column middle_abs: {label = "median absolute error", format = ".1%"}
-- column worst_abs: {label = "worst, with its sign", format = ".1%"}
-- column why: {label = "why cells are off"}
-- column worst_cell: {label = "the worst cell"}
-- empty: the fidelity table has not run
-- The median of few cells is a description of them, not an estimate of anything.
SELECT seal, source, upper(platform) AS platform, regime, n_cells, median_error AS middle_abs,
       worst_error AS worst_abs, worst_cell, why
FROM twin_fidelity_summary ORDER BY source, platform DESC, regime
