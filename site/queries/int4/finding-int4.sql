-- title: Error of int4 experts, relative RMS
-- column what: {label = "what"}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- column number: {label = "relative RMS", format = ".1%"}
-- empty: the error study has not been derived
WITH e AS (SELECT seal, rule, stage, relative_rms FROM int4_expert_error_outputs WHERE source = 'gaussian')
SELECT u.seal, u.what, u.source, u.number, m.relative_rms > w.relative_rms AND b.relative_rms < m.relative_rms AS holds
FROM int4_error_errors AS w JOIN e AS m ON m.rule = w.rule AND m.stage = 'mix' JOIN e AS b ON b.rule = 'mse' AND b.stage = 'mix',
LATERAL (VALUES (w.seal, 'weights, rule in use', 'derived', w.relative_rms), (m.seal, 'output, rule in use', 'derived', m.relative_rms),
  (b.seal, 'output, better rule', 'derived', b.relative_rms)) AS u(seal, what, source, number)
WHERE w.rule = 'amax7' AND w.source = 'gaussian' AND w.arithmetic = 'bf16'
ORDER BY list_position(['weights, rule in use', 'output, rule in use', 'output, better rule'], u.what)
