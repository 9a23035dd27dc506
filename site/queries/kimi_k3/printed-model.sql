-- title: Properties of the model, as printed
-- column value: {label = "printed"}
SELECT seal, property, value FROM published_configuration_model ORDER BY position
