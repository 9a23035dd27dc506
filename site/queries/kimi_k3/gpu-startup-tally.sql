-- title: Launches whose start-up line came out as predicted
-- column predicted: {label = "launches predicted", seal = "seal_predicted"}
-- column launches: {label = "launches"}
-- column starts: {label = "starts"}
-- column same: {label = "starts as predicted"}
-- column counts: {label = "different token counts"}
-- empty: no launch on a GPU has been sealed
WITH predicted AS (SELECT seal, count(*) AS n FROM launch_predictions_startups GROUP BY seal)
SELECT c.seal, any_value(p.seal) AS seal_predicted, any_value(p.n) AS predicted, count(DISTINCT c.launch) AS launches, count(*) AS starts,
       count(*) FILTER (WHERE c.same) AS same, count(DISTINCT c.printed_tokens) AS counts
FROM launch_check_startups AS c CROSS JOIN predicted AS p GROUP BY c.seal ORDER BY c.seal
