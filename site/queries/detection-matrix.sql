-- title: Smallest rate of each fault that each probe is shown to catch
-- column subject: {label = "target", hide = true}
-- column probe: {label = "probe"}
-- column defect: {label = "fault"}
-- column smallest_rate: {label = "smallest rate caught"}
-- column state: {label = "result"}
-- column shown: {hide = true}
-- empty: the detection matrix has not run
WITH probes AS (SELECT DISTINCT seal, subject, probe FROM detection_matrix_caught), defects AS (SELECT DISTINCT seal, defect FROM detection_matrix_caught)
SELECT p.seal, p.subject, p.probe, replace(d.defect, '-', ' ') AS defect, c.smallest_rate,
       CASE WHEN c.probe IS NULL THEN 'not tried' WHEN c.smallest_rate IS NULL THEN 'not caught' ELSE 'caught' END AS state,
       CASE WHEN c.smallest_rate IS NULL THEN '' ELSE printf('%g', c.smallest_rate) END AS shown
FROM probes AS p JOIN defects AS d ON d.seal = p.seal LEFT JOIN detection_matrix_caught AS c ON c.seal = p.seal AND c.probe = p.probe AND c.defect = d.defect
ORDER BY p.subject, defect, p.probe
