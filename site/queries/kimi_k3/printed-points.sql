-- title: Single figures that the text prints of its pictures
-- column figure: {label = "picture"}
-- column platform: {label = "platform"}
-- column quantity: {label = "quantity"}
-- column value: {label = "printed"}
-- column unit: {label = "unit"}
-- column place: {label = "printed where"}
SELECT seal, figure, platform, quantity, value_printed AS value, unit, place
FROM published_contents_points
ORDER BY position
