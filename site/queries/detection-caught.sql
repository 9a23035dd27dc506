-- title: Smallest rate caught, per defect and probe
-- column subject: {label = "target"}
-- column defect: {label = "defect"}
-- column probe: {label = "probe"}
-- column smallest_rate: {label = "smallest rate caught", format = ".3g"}
-- column n: {label = "n"}
-- column flagged: {label = "flagged"}
-- empty: the detection matrix has not run
SELECT seal, subject, defect, probe, smallest_rate, n, flagged
FROM detection_matrix_caught WHERE smallest_rate IS NOT NULL ORDER BY subject, defect, smallest_rate, probe
