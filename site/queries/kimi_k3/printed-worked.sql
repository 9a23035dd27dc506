-- title: The worked example, as printed
-- column mi325x: {label = "MI325X"}
-- column mi300x: {label = "MI300X"}
SELECT seal, step, mi325x, mi300x FROM published_recipe_worked_example ORDER BY position
