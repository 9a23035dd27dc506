-- title: What the publication refers to
SELECT seal, reference, identifier, about FROM published_recipe_references ORDER BY position
