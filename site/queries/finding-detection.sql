-- title: How many probes notice a fault
-- column defect: {label = "fault"}
-- column probes: {label = "probes that notice", format = "d"}
-- column all_probes: {label = "probes tried", format = "d"}
-- column least: {hide = true}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- empty: the detection matrix has not run
WITH counted AS (
  SELECT seal, defect, count(smallest_rate) AS probes, count(DISTINCT probe) AS all_probes FROM detection_matrix_caught GROUP BY seal, defect
)
SELECT seal, replace(defect, '-', ' ') AS defect, probes, all_probes, 'simulated' AS source,
       row_number() OVER (ORDER BY probes, defect) = 1 AS least, min(probes) OVER () < max(probes) OVER () AS holds
FROM counted WHERE probes > 0 ORDER BY probes, defect
