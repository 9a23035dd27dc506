-- title: Constants of the twin and what they were fitted to
-- column value: {label = "value", format = "d"}
-- column calibrated_on: {label = "fitted to"}
-- empty: the calibration has not run
SELECT seal, upper(platform) AS platform, constant, value, calibrated_on
FROM twin_calibration_constants ORDER BY platform DESC, constant
