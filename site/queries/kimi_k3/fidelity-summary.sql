-- title: Errors of held-out cells by table and regime
-- column source: {label = "where"}
-- column n_cells: {label = "cells"}
-- column middle_abs: {label = "middle of the absolute errors", format = ".1%"}
-- column worst_abs: {label = "worst, with its sign", format = ".1%"}
-- column what_if_middle: {label = "middle, with the costs below", format = ".1%"}
-- column n_unexplained: {label = "far off with them too"}
-- column why: {label = "what would have to be true"}
-- column worst_cell: {label = "the worst cell"}
-- empty: the fidelity table has not run
-- The median of few cells is a description of them, not an estimate of anything.
SELECT seal, source, upper(platform) AS platform, regime, n_cells, median_error AS middle_abs,
       worst_error AS worst_abs, worst_cell, what_if_median AS what_if_middle, n_unexplained, why
FROM twin_fidelity_summary ORDER BY source, platform DESC, regime
