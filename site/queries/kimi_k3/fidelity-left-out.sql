-- title: Errors when a platform or a table is left out of the fit
-- column left_out: {label = "left out of the fit"}
-- column platform: {label = "platform"}
-- column source: {label = "predicted cells"}
-- column regime: {label = "regime"}
-- column n_cells: {label = "cells"}
-- column middle_abs: {label = "median absolute error", format = ".1%"}
-- column worst_abs: {label = "worst, with its sign", format = ".1%"}
-- column fitted_on: {label = "fitted to instead"}
-- empty: the fidelity table has not run
SELECT seal, CASE WHEN starts_with(left_out, 'mi3') THEN upper(left_out) ELSE left_out END AS left_out,
       upper(platform) AS platform, source, regime, n_cells, median_error AS middle_abs,
       worst_error AS worst_abs, fitted_on
FROM twin_fidelity_left_out WHERE twin_fidelity_left_out.left_out <> 'long context' ORDER BY twin_fidelity_left_out.left_out DESC, source, platform DESC, regime
