-- title: Layouts of the pools
-- column experts_gib: {label = "experts", unit = "GiB", format = ".1f"}
-- column dense_gib: {label = "dense, sharded", unit = "GiB", format = ".1f"}
-- column dense_whole_gib: {label = "dense, doubtful parts whole", unit = "GiB", format = ".1f"}
-- column left_gib: {label = "left for KV", unit = "GiB", format = ".1f"}
-- column left_least_gib: {label = "at least", unit = "GiB", format = ".1f"}
-- column smallest: {label = "smallest pool"}
-- empty: the budget has not been derived
SELECT seal, upper(platform) AS platform, nodes, 'TP' || tp || ' x DP' || dp AS layout,
       experts_resident / 1073741824.0 AS experts_gib, dense_low / 1073741824.0 AS dense_gib,
       dense_high / 1073741824.0 AS dense_whole_gib, headroom_high / 1073741824.0 AS left_gib,
       headroom_low / 1073741824.0 AS left_least_gib, smallest, verdict
FROM memory_budget_layouts
ORDER BY platform, nodes, tp
