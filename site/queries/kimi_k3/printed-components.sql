-- title: Components of the checkpoint, as printed
-- column size_gib: {label = "size", unit = "GiB", format = ".1f", disputed = "disputed"}
-- column disputed: {hide = true}
SELECT seal, component, precision, size_gib,
       contradicted(subject, CASE WHEN component LIKE 'MLA%' THEN 'w.mla' WHEN component LIKE 'KDA%' THEN 'w.rest' END) AS disputed
FROM published_configuration_components ORDER BY position
