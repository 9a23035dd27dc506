-- title: Single figures that the text prints of its pictures
-- column figure: {label = "picture"}
-- column value: {label = "printed", disputed = "disputed"}
-- column disputed: {hide = true}
-- column place: {label = "printed where"}
SELECT seal, figure, platform, quantity, value_printed AS value, unit, place,
       CASE WHEN quantity LIKE 'cache of a request%' THEN contradicted(subject, 'kv.request') END AS disputed
FROM published_contents_points
ORDER BY position
