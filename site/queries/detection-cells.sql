-- title: Detection against intensity
-- column subject: {label = "target"}
-- column rate: {label = "rate", format = ".3g"}
-- column detection: {label = "share flagged", format = ".0%"}
-- column low: {label = "at least (95 %)", format = ".0%"}
-- column high: {label = "at most (95 %)", format = ".0%"}
-- empty: the detection matrix has not run
-- A matrix from before the intervals has none of them.
SELECT COLUMNS('^(seal|subject|defect|probe|rate|n|flagged|detection|low|high)$')
FROM detection_matrix_cells ORDER BY subject, defect, probe, rate
