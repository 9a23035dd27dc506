-- title: Launches whose start-up line came out as predicted
-- column launches: {label = "launches"}
-- column starts: {label = "starts"}
-- column same: {label = "as predicted"}
-- empty: no launch on a GPU has been sealed
SELECT seal, count(DISTINCT launch) AS launches, count(*) AS starts, count(DISTINCT launch) FILTER (WHERE same) AS same
FROM launch_check_startups GROUP BY seal ORDER BY seal
