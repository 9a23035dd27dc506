-- title: What the publication refers to
-- column reference: {label = "reference"}
-- column identifier: {label = "identifier"}
-- column about: {label = "about"}
SELECT seal, reference, identifier, about FROM published_recipe_references ORDER BY position
