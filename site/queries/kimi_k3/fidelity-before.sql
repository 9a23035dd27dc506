-- title: Held-out errors with and without the costs of long context
-- column source: {label = "where"}
-- column platform: {label = "platform"}
-- column regime: {label = "regime"}
-- column n_cells: {label = "cells"}
-- column middle_abs: {label = "median absolute error", format = ".1%"}
-- column worst_abs: {label = "worst, with its sign", format = ".1%"}
-- column before_middle: {label = "median without the two costs", format = ".1%"}
-- column before_abs: {label = "worst without them", format = ".1%"}
-- column n_drawn: {label = "cells drawn several times"}
-- column n_inside: {label = "of these, printed within the draws"}
-- empty: the fidelity table has not run
SELECT seal, source, upper(platform) AS platform, regime, n_cells, median_error AS middle_abs,
       worst_error AS worst_abs, before_median AS before_middle, before_worst AS before_abs, n_drawn, n_inside
FROM twin_fidelity_before ORDER BY source, twin_fidelity_before.platform DESC, regime
