-- title: Every point of every sweep with its fitted value
-- column source: {label = "points from"}
-- column osl: {label = "output tokens", unit = "tokens", format = "d"}
-- column wall_s: {label = "wall", unit = "s", format = ".2f"}
-- column fitted_s: {label = "fitted", unit = "s", format = ".2f"}
-- column residual_s: {label = "residual", unit = "s", format = ".3f"}
-- Of several fits to a target the one with the most points is shown.
WITH chosen AS (
  SELECT f.seal FROM wall_law_fit AS f JOIN artifacts AS a ON a.seal = f.seal AND a.verdict_ok
  WHERE f.selection = 'all'
  QUALIFY row_number() OVER (PARTITION BY f.subject, f.platform ORDER BY f.n DESC, f.seal) = 1
)
SELECT seal, CASE WHEN starts_with(subject, 'twin:') THEN 'twin' ELSE 'earlier report' END AS source,
       upper(platform) AS platform, osl, wall_s, fitted_s, residual_s
FROM wall_law_points
WHERE selection = 'all' AND seal IN (SELECT seal FROM chosen)
ORDER BY source, platform, position
