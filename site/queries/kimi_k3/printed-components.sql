-- title: Components of the checkpoint, as printed
-- column size_gib: {label = "size", unit = "GiB", format = ".1f"}
SELECT seal, component, precision, size_gib FROM published_configuration_components ORDER BY position
