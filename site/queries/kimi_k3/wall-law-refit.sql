-- title: Fits printed in the earlier report beside our fit of its printed points
-- column selection: {label = "points"}
-- column n: {label = "n"}
-- column printed_c0_s: {label = "C0 printed", unit = "s", format = ".1f", seal = "printed_seal"}
-- column our_c0_s: {label = "C0 ours", unit = "s", format = ".2f", seal = "our_seal"}
-- column our_c0_low_s: {label = "low", unit = "s", format = ".2f", seal = "our_seal"}
-- column our_c0_high_s: {label = "high", unit = "s", format = ".2f", seal = "our_seal"}
-- column printed_k_s: {label = "k printed", unit = "s/token", format = ".3f", seal = "printed_seal"}
-- column our_k_s: {label = "k ours", unit = "s/token", format = ".4f", seal = "our_seal"}
-- column our_k_low_s: {label = "low", unit = "s/token", format = ".4f", seal = "our_seal"}
-- column our_k_high_s: {label = "high", unit = "s/token", format = ".4f", seal = "our_seal"}
-- column r2: {label = "R²", format = ".6f", seal = "our_seal"}
-- column inside: {label = "printed fit inside our interval"}
-- The points come from the same page as the printed fit, so no difference is shown; the computation is ours.
-- Of several fits to a target the one with the most points is shown.
WITH chosen AS (
  SELECT f.seal FROM wall_law_fit AS f JOIN artifacts AS a ON a.seal = f.seal AND a.verdict_ok
  WHERE f.selection = 'all'
  QUALIFY row_number() OVER (PARTITION BY f.subject, f.platform ORDER BY f.n DESC, f.seal) = 1
)
SELECT [p.seal, f.seal] AS seal, p.seal AS printed_seal, f.seal AS our_seal, upper(p.platform) AS platform,
       f.selection, f.n, p.c0_s AS printed_c0_s, f.c0_s AS our_c0_s, f.c0_low_s AS our_c0_low_s,
       f.c0_high_s AS our_c0_high_s,
       p.k_s_per_token AS printed_k_s, f.k_s_per_token AS our_k_s, f.k_low_s_per_token AS our_k_low_s,
       f.k_high_s_per_token AS our_k_high_s, f.r2,
       p.c0_s BETWEEN f.c0_low_s AND f.c0_high_s
         AND p.k_s_per_token BETWEEN f.k_low_s_per_token AND f.k_high_s_per_token AS inside,
       relation_between(f.seal, p.seal) AS relation
FROM earlier_report_fits AS p
JOIN wall_law_fit AS f
  ON f.subject = p.subject AND f.platform = p.platform
 AND f.selection = CASE WHEN p.points = 5 THEN 'all' ELSE 'shortest dropped' END
 AND f.seal IN (SELECT seal FROM chosen)
ORDER BY p.platform DESC, f.n
