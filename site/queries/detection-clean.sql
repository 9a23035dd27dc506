-- title: False alarms on the clean twin
-- column subject: {label = "target"}
-- column probe: {label = "probe"}
-- column n: {label = "n"}
-- column flagged: {label = "flagged"}
-- empty: the detection matrix has not run
SELECT seal, subject, probe, n, flagged FROM detection_matrix_clean ORDER BY subject, probe
