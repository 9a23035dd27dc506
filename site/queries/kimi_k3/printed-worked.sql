-- title: The worked example, as printed
-- column mi325x: {label = "MI325X"}
-- column mi300x: {label = "MI300X", disputed = "disputed"}
-- column disputed: {hide = true}
SELECT e.seal, e.step, e.mi325x, e.mi300x, CASE WHEN e.step = 'requests that fit' THEN contradicted(e.subject, (
  SELECT any_value(r.claim) FROM publication_check_readings AS r, published_recipe_question AS q
  WHERE q.quantity = 'context' AND r.item = 'N_max mi300x ' || q.value_printed)) END AS disputed
FROM published_recipe_worked_example AS e ORDER BY e.position

