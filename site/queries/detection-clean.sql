-- title: False alarms on the clean twin
-- column subject: {label = "target"}
-- column at_most: {label = "false alarms at most (one-sided, 95 %)", format = ".1%"}
-- empty: the detection matrix has not run
-- A matrix from before the bound has none.
SELECT COLUMNS('^(seal|subject|probe|n|flagged|at_most)$') FROM detection_matrix_clean ORDER BY subject, probe
