-- title: Headroom per GPU on MI300X, printed and computed
-- column printed: {label = "printed", unit = "GiB", format = ".0f", seal = "printed_seal"}
-- column stored_gib: {label = "computed, stored format", unit = "GiB", format = ".1f", seal = "our_seal"}
-- column held_gib: {label = "computed, held format", unit = "GiB", format = ".1f", seal = "our_seal"}
-- column least_gib: {label = "doubtful parts whole", unit = "GiB", format = ".1f", seal = "our_seal"}
-- column verdict: {label = "verdict", seal = "our_seal"}
-- empty: the budget has not been derived
-- Heap and overhead are the publication's own, so the pair shares a formula.
SELECT [p.seal, b.seal] AS seal, p.seal AS printed_seal, b.seal AS our_seal,
       'TP' || b.tp || ' x DP' || b.dp AS layout, p.headroom_gib AS printed,
       b.headroom_on_disk / 1073741824.0 AS stored_gib, b.headroom_high / 1073741824.0 AS held_gib,
       b.headroom_low / 1073741824.0 AS least_gib, b.verdict, relation_of('formula', 'layouts', p.layout, 'headroom_gib') AS relation
FROM published_capacity_layouts AS p
JOIN memory_budget_layouts AS b ON b.platform = 'mi300x' AND b.nodes = 2 AND b.tp = p.tp
ORDER BY b.tp
