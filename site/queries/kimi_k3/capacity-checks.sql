-- title: Printed predictions beside printed measurements
-- column check: {label = "prediction"}
-- column predicted: {label = "predicted", format = ".1f", seal = "law_seal"}
-- column observed: {label = "observed", format = ".1f", seal = "seen_seal"}
-- column above: {label = "observed over predicted, less one", format = ".1%"}
-- Both sides are printed. Wall-clock: the fit at the envelope's reply length beside the envelope's floor. Between tokens: the
-- slope beside the replay with a single lane.
WITH wall AS (
  SELECT w.seal, w.platform, w.c0_s + w.k_s_per_token * q.value AS predicted FROM published_decode_wall_law AS w, published_recipe_question AS q
  WHERE q.quantity = 'reply'
)
SELECT [w.seal, e.seal] AS seal, w.seal AS law_seal, e.seal AS seen_seal, 'wall-clock of a single request' AS "check", upper(w.platform) AS platform, 's' AS unit,
       w.predicted, e.value AS observed, e.value / w.predicted - 1 AS above
FROM wall AS w JOIN published_decode_envelope AS e ON e.platform = w.platform AND e.quantity = 'wall'
UNION ALL
SELECT [w.seal, r.seal], w.seal, r.seal, 'time between tokens', upper(w.platform), 'ms', w.k_ms_per_token, r.itl_p50_ms, r.itl_p50_ms / w.k_ms_per_token - 1
FROM published_decode_wall_law AS w JOIN published_agentic_replays AS r ON r.platform = w.platform AND r.profile = 'small' AND r.concurrency = 1
ORDER BY "check" DESC, platform DESC
