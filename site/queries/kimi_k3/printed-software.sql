-- title: Software pins, as printed
-- column component: {label = "component"}
-- column pin: {label = "pin"}
SELECT seal, component, pin FROM published_configuration_software ORDER BY position
