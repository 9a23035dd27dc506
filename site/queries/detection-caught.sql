-- title: Smallest rate caught, per defect and probe
-- column subject: {label = "target"}
-- column smallest_rate: {label = "smallest rate caught", format = ".3g"}
-- column at_least: {label = "caught in at least (one-sided, 95 %)", format = ".1%"}
-- column missed_rate: {label = "next lower rate", format = ".3g"}
-- column missed_n: {label = "n there"}
-- column missed_flagged: {label = "flagged there"}
-- empty: the detection matrix has not run
-- A matrix from before the confidence and the next lower rate has neither.
SELECT COLUMNS('^(seal|subject|defect|probe|smallest_rate|n|flagged|at_least|missed_.*)$')
FROM detection_matrix_caught WHERE smallest_rate IS NOT NULL ORDER BY subject, defect, smallest_rate, probe
