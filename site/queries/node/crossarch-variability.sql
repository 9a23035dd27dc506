-- title: Can five restarts a side show it?
-- column bound: {label = "end of the printed range"}
-- column printed: {label = "printed ratio of spreads", unit = "x", seal = "seal_printed"}
-- column factor: {label = "factor to exceed", unit = "x", format = ".2f", seal = "seal_factor"}
-- column low: {label = "the true ratio may be as low as", unit = "x", format = ".2f", seal = "seal_both"}
-- column high: {label = "as high as", unit = "x", format = ".1f", seal = "seal_both"}
-- column said: {label = "what may be said"}
-- empty: no comparison has run
SELECT f.seal AS seal_printed, e.seal AS seal_factor, [f.seal, e.seal] AS seal_both, [f.seal, e.seal] AS seal,
  CASE WHEN f.quantity = 'CoV factor, low' THEN 'low' ELSE 'high' END AS bound, f.value_printed AS printed, e.factor AS factor,
  f.value / e.factor AS low, f.value * e.factor AS high,
  CASE WHEN f.value > e.factor THEN 'more variable' ELSE 'not shown: within the factor' END AS said, relation_between(e.seal, f.seal) AS relation
FROM published_figures_figures f
JOIN (SELECT seal, max(cv_factor) AS factor FROM ablation_effect_effect
      WHERE n_a = (SELECT restarts FROM published_levels_spread WHERE condition = 'aiter on' AND subject = 'mi325x-cookbook')
      AND contains(side_b, 'aiter=') GROUP BY seal) e ON true
WHERE f.subject = 'mi325x-crossarch' AND starts_with(f.quantity, 'CoV factor') ORDER BY f.value
