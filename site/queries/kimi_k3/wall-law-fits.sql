-- title: Fits of the wall law
-- column subject: {label = "points from"}
-- column selection: {label = "points"}
-- column n: {label = "n"}
-- column c0_s: {label = "C0", unit = "s", format = ".2f"}
-- column c0_low_s: {label = "C0 low", unit = "s", format = ".2f"}
-- column c0_high_s: {label = "C0 high", unit = "s", format = ".2f"}
-- column k_ms: {label = "k", unit = "ms/token", format = ".2f"}
-- column k_low_ms: {label = "k low", unit = "ms/token", format = ".2f"}
-- column k_high_ms: {label = "k high", unit = "ms/token", format = ".2f"}
-- column r2: {label = "R²", format = ".6f"}
-- column worst_residual_s: {label = "largest residual", unit = "s", format = ".2f"}
-- column osl_low: {label = "from", unit = "tokens", format = "d"}
-- column osl_high: {label = "to", unit = "tokens", format = "d"}
-- column confidence: {label = "confidence", format = ".0%", hide = true}
-- column n_serves: {hide = true}
SELECT f.seal, f.subject, upper(f.platform) AS platform, f.selection, f.n,
       c0_s, c0_low_s, c0_high_s,
       1000 * k_s_per_token AS k_ms, 1000 * k_low_s_per_token AS k_low_ms, 1000 * k_high_s_per_token AS k_high_ms,
       r2, worst_residual_s, osl_low, osl_high,
       CAST(json_extract(a.parameters, '$.confidence') AS DOUBLE) AS confidence, a.serves AS n_serves
FROM wall_law_fit AS f JOIN artifacts AS a ON a.seal = f.seal
ORDER BY f.subject, f.platform, f.selection
