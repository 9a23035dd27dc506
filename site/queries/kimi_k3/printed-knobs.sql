-- title: Serving knobs, as printed
-- column mi325x: {label = "MI325X"}
-- column mi300x: {label = "MI300X"}
-- column reason: {label = "why, in short"}
SELECT seal, knob, mi325x, mi300x, reason FROM published_configuration_knobs ORDER BY position
