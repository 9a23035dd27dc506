-- title: What every lane printed, beside the prediction
-- column role: {label = "process"}
-- column lane: {label = "lane"}
-- column printed_tokens: {label = "printed", unit = "tokens", format = "d"}
-- column predicted_tokens: {label = "by the block law", unit = "tokens", format = "d"}
-- column n_serves: {hide = true}
-- empty: no cluster was brought up yet (k3repro run bring-up)
SELECT seal, replace(role, '_', ' ') AS role, lane, printed_tokens, predicted_tokens, 1 AS n_serves
FROM bring_up_lanes
WHERE seal = (SELECT min(seal) FROM bring_up_timeline WHERE subject = 'cluster:twin-local')
ORDER BY role, lane
