-- title: Single figures that the text prints of its pictures
-- column figure: {label = "picture"}
-- column value: {label = "printed"}
-- column place: {label = "printed where"}
SELECT seal, figure, platform, quantity, value_printed AS value, unit, place
FROM published_contents_points
ORDER BY position
