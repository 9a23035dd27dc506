-- title: What each probe catches
-- column subject: {label = "target"}
-- column defects: {label = "defects it catches"}
-- column names: {label = "which"}
-- empty: the detection matrix has not run
SELECT seal, subject, probe, count(smallest_rate) AS defects,
       string_agg(defect, ', ' ORDER BY defect) FILTER (WHERE smallest_rate IS NOT NULL) AS names
FROM detection_matrix_caught GROUP BY seal, subject, probe ORDER BY subject, probe
