-- title: The decode graph switched off, over restarts of both sides
-- column subject: {hide = true}
-- column side_a: {label = "A"}
-- column side_b: {label = "B"}
-- column concurrency: {label = "in flight"}
-- column n_a: {label = "serves of A"}
-- column n_b: {label = "serves of B"}
-- column rate_a: {label = "output rate A", unit = "tokens/s", format = ".1f"}
-- column rate_b: {label = "output rate B", unit = "tokens/s", format = ".1f"}
-- column cv_a: {label = "spread of A", format = ".2%"}
-- column cv_b: {label = "spread of B", format = ".2%"}
-- column effect: {label = "B over A, less one", format = ".1%"}
-- column effect_low: {label = "interval from", format = ".1%"}
-- column effect_high: {label = "to", format = ".1%"}
-- column n_serves: {hide = true}
-- empty: no ablation has been run on the twin
-- Spread is the coefficient of variation between serves. Comparisons of the single-node study have a page of their own.
SELECT e.seal, e.subject, e.side_a, e.side_b, e.concurrency, e.n_a, e.n_b, e.rate_a, e.rate_b, e.cv_a, e.cv_b, e.effect, e.effect_low,
       e.effect_high, e.standing, a.serves AS n_serves
FROM ablation_effect_effect AS e JOIN artifacts AS a ON a.seal = e.seal AND a.verdict_ok AND a.basis = 'simulated'
WHERE NOT contains(e.side_a, '-1n/')
ORDER BY e.subject, e.seal, e.concurrency
