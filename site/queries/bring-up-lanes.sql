-- title: What every DP rank printed, beside the prediction
-- column role: {label = "process"}
-- column printed_tokens: {label = "printed", unit = "tokens", format = "d"}
-- column predicted_tokens: {label = "by the block law", unit = "tokens", format = "d"}
-- column n_serves: {hide = true}
-- empty: no cluster was brought up yet (k3repro run bring-up)
SELECT l.seal, replace(l.role, '_', ' ') AS role, l.lane, l.printed_tokens, l.predicted_tokens, a.serves AS n_serves
FROM bring_up_lanes AS l JOIN artifacts AS a ON a.seal = l.seal
WHERE l.seal = (SELECT min(seal) FROM bring_up_timeline WHERE subject = 'cluster:twin-local')
ORDER BY l.role, l.lane
