-- title: Hand-offs on a GPU that moved what the law says
-- column pairs: {label = "pairs"}
-- column requests: {label = "requests answered"}
-- column same: {label = "to the byte"}
-- column apart: {label = "of them between GPUs"}
-- column unanswered: {label = "not answered in time"}
-- empty: no hand-off on a GPU has been sealed
SELECT seal, count(DISTINCT (launch, serve)) AS pairs, count(same) AS requests, count(*) FILTER (WHERE same) AS same,
       count(*) FILTER (WHERE same AND gpus = 2) AS apart, count(*) FILTER (WHERE same IS NULL) AS unanswered
FROM launch_check_handoffs GROUP BY seal ORDER BY seal
