-- title: Where on a request's way each fault strikes, and how many probes notice it
-- column stage: {label = "where it strikes"}
-- column defect: {label = "fault"}
-- column probes: {label = "probes that notice", format = "d"}
-- column all_probes: {label = "probes tried", format = "d"}
-- column noticed: {label = "noticed by"}
-- column place: {hide = true}
-- empty: the detection matrix has not run
WITH counted AS (
  SELECT seal, defect, count(smallest_rate) AS probes, count(DISTINCT probe) AS all_probes FROM detection_matrix_caught GROUP BY seal, defect
), placed AS (
  SELECT *, CASE
      WHEN defect = 'slow-client' THEN 'client'
      WHEN defect IN ('preamble', 'prefill-api-dies') THEN 'API server'
      WHEN defect = 'idle-stall' THEN 'scheduler'
      WHEN defect = 'warm-prefix-cache' THEN 'prefill'
      WHEN defect IN ('kv-write-race', 'fabric-wedged', 'tcp-fallback', 'decode-restarted') THEN 'hand-off'
      WHEN defect IN ('missing-peers', 'state-recycle', 'haystack-sensitivity') THEN 'decode'
      WHEN defect IN ('in-stream-error', 'coalesced-events') THEN 'reply'
      WHEN defect = 'clock-skew' THEN 'metrics' ELSE 'elsewhere' END AS stage
  FROM counted
)
SELECT seal, stage, replace(defect, '-', ' ') AS defect, probes, all_probes,
       CASE WHEN probes * 2 < all_probes THEN 'few probes' ELSE 'most probes' END AS noticed,
       list_position(['client', 'API server', 'scheduler', 'prefill', 'hand-off', 'decode', 'reply', 'metrics', 'elsewhere'], stage) AS place
FROM placed ORDER BY place, probes, defect
