-- title: What the worked example asks
-- column quantity: {label = "quantity"}
-- column value: {label = "asked"}
-- column unit: {label = "unit"}
SELECT seal, quantity, CAST(value AS BIGINT) AS value, unit FROM published_recipe_question ORDER BY quantity
