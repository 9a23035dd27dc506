-- title: Hardware, as printed
-- column mi325x: {label = "MI325X"}
-- column mi300x: {label = "MI300X"}
SELECT seal, component, mi325x, mi300x FROM published_configuration_hardware ORDER BY position
