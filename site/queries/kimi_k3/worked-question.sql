-- title: What the worked example asks
-- column value: {label = "asked"}
SELECT seal, quantity, CAST(value AS BIGINT) AS value, unit FROM published_recipe_question ORDER BY quantity
