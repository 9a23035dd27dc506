-- title: Residuals of the calibration, in-sample
-- column printed: {label = "printed", format = ".3g"}
-- column simulated: {label = "fitted", format = ".3g"}
-- column residual: {label = "residual of the fit", format = ".1%"}
-- empty: the calibration has not run
SELECT seal, upper(platform) AS platform, cell, quantity, unit, printed, simulated, residual
FROM twin_calibration_residuals ORDER BY platform DESC, cell, quantity
