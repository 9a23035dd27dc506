-- title: Held-out errors with and without the costs of long context
-- column source: {label = "where"}
-- column platform: {label = "platform"}
-- column regime: {label = "regime"}
-- column n_cells: {label = "cells"}
-- column middle_abs: {label = "median absolute error", format = ".1%"}
-- column worst_abs: {label = "worst, with its sign", format = ".1%"}
-- column before_middle: {label = "median without these costs", format = ".1%"}
-- column before_abs: {label = "worst without them", format = ".1%"}
-- empty: the fidelity table has not run
SELECT s.seal, s.source, upper(s.platform) AS platform, s.regime, s.n_cells, s.median_error AS middle_abs,
       s.worst_error AS worst_abs, l.median_error AS before_middle, l.worst_error AS before_abs
FROM twin_fidelity_left_out AS l
JOIN twin_fidelity_summary AS s ON s.seal = l.seal AND s.source = l.source AND s.platform = l.platform AND s.regime = l.regime
WHERE l.left_out = 'long context' ORDER BY s.source, s.platform DESC, s.regime
