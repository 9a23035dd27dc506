-- title: Memory per GPU on MI300X, printed and predicted
-- column published: {label = "published", unit = "GiB", format = ".1f", seal = "printed_seal", disputed = "disputed"}
-- column disputed: {hide = true}
-- column predicted: {label = "predicted", unit = "GiB", format = ".1f", seal = "our_seal"}
-- column as_held: {label = "predicted, experts as held", unit = "GiB", format = ".1f", seal = "our_seal"}
-- column difference: {label = "predicted minus published", unit = "GiB", format = ".1f", difference = true}
-- empty: the budget has not been derived
-- Weights follow from the model's own shapes: independent. Heap and overhead are the publication's: same-law.
SELECT [p.seal, b.seal] AS seal, p.seal AS printed_seal, b.seal AS our_seal, p.layout, u.quantity, u.published, u.predicted,
       u.as_held, CASE WHEN NOT u.by_formula THEN u.predicted - u.published END AS difference,
       relation_of(CASE WHEN u.by_formula THEN 'formula' ELSE 'nothing' END, 'layouts', p.layout, u.cell) AS relation,
       CASE WHEN u.quantity = 'replicated part' THEN contradicted(p.subject, concat('t1.tp', p.tp, '.repl')) END AS disputed
FROM published_capacity_layouts AS p
JOIN memory_budget_layouts AS b ON b.platform = 'mi300x' AND b.tp = p.tp AND b.dp = p.dp,
LATERAL (VALUES
  ('replicated part', 'replicated_gib', p.replicated_gib, b.dense_low / 1073741824.0, b.dense_high / 1073741824.0, false),
  ('weights', 'weights_gib', p.weights_gib, (b.experts_on_disk + b.dense_low) / 1073741824.0, (b.experts_resident + b.dense_high) / 1073741824.0, false),
  ('with heap and overhead', 'with_overhead_gib', p.with_overhead_gib, (b.experts_on_disk + b.dense_low + b.heap + b.overhead) / 1073741824.0,
   (b.experts_resident + b.dense_high + b.heap + b.overhead) / 1073741824.0, true),
  ('KV headroom', 'headroom_gib', p.headroom_gib, b.headroom_on_disk / 1073741824.0, b.headroom_low / 1073741824.0, true)
) AS u(quantity, cell, published, predicted, as_held, by_formula)
ORDER BY b.tp, CASE u.quantity WHEN 'replicated part' THEN 1 WHEN 'weights' THEN 2 WHEN 'KV headroom' THEN 4 ELSE 3 END
