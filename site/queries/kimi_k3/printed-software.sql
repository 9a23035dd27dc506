-- title: Software pins, as printed
SELECT seal, component, pin FROM published_configuration_software ORDER BY position
