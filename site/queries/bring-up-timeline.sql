-- title: A bring-up of the twin cluster, step by step
-- column at_s: {label = "after", unit = "s", format = ".1f"}
-- column until_s: {hide = true, format = ".1f"}
-- column what: {label = "what was done or seen"}
-- column step: {hide = true}
-- column n_serves: {hide = true}
-- empty: no cluster was brought up yet (k3repro run bring-up)
SELECT t.seal, t.step, t.at_s, coalesce(lead(t.at_s) OVER (PARTITION BY t.seal ORDER BY t.step), t.at_s) AS until_s,
       t.phase, t.what, a.serves AS n_serves
FROM bring_up_timeline AS t JOIN artifacts AS a ON a.seal = t.seal
WHERE t.seal = (SELECT min(seal) FROM bring_up_timeline WHERE subject = 'cluster:twin-local')
ORDER BY t.step
