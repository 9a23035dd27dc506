-- title: The printed fit beside the fit to the twin's sweep
-- column printed_c0_s: {label = "C0 printed", unit = "s", format = ".2f", seal = "printed_seal"}
-- column twin_c0_s: {label = "C0 twin", unit = "s", format = ".2f", seal = "twin_seal"}
-- column twin_c0_low_s: {label = "low", unit = "s", format = ".2f", seal = "twin_seal"}
-- column twin_c0_high_s: {label = "high", unit = "s", format = ".2f", seal = "twin_seal"}
-- column printed_k_ms: {label = "k printed", unit = "ms/token", format = ".0f", seal = "printed_seal"}
-- column twin_k_ms: {label = "k twin", unit = "ms/token", format = ".2f", seal = "twin_seal"}
-- column twin_k_low_ms: {label = "low", unit = "ms/token", format = ".2f", seal = "twin_seal"}
-- column twin_k_high_ms: {label = "high", unit = "ms/token", format = ".2f", seal = "twin_seal"}
-- column n: {label = "n"}
-- column confidence: {label = "confidence", format = ".0%", seal = "twin_seal", hide = true}
-- column n_serves: {hide = true}
-- The twin's step cost and fixed cost were set to the printed k and C0, so the pair is in-sample and has no difference.
-- Of several fits to a target the one with the most points is shown.
WITH chosen AS (
  SELECT f.seal FROM wall_law_fit AS f JOIN artifacts AS a ON a.seal = f.seal AND a.verdict_ok
  WHERE f.selection = 'all'
  QUALIFY row_number() OVER (PARTITION BY f.subject, f.platform ORDER BY f.n DESC, f.seal) = 1
)
SELECT [p.seal, f.seal] AS seal, p.seal AS printed_seal, f.seal AS twin_seal, upper(p.platform) AS platform,
       p.c0_s AS printed_c0_s, f.c0_s AS twin_c0_s, f.c0_low_s AS twin_c0_low_s, f.c0_high_s AS twin_c0_high_s,
       p.k_ms_per_token AS printed_k_ms, 1000 * f.k_s_per_token AS twin_k_ms,
       1000 * f.k_low_s_per_token AS twin_k_low_ms, 1000 * f.k_high_s_per_token AS twin_k_high_ms,
       f.n, CAST(json_extract(a.parameters, '$.confidence') AS DOUBLE) AS confidence, a.serves AS n_serves, relation_of('twin', 'wall_law', p.platform, 'k_s_per_token') AS relation
FROM published_decode_wall_law AS p
JOIN wall_law_fit AS f ON f.subject = 'twin:' || p.platform AND f.platform = p.platform AND f.selection = 'all'
  AND f.seal IN (SELECT seal FROM chosen)
JOIN artifacts AS a ON a.seal = f.seal
ORDER BY p.platform DESC
