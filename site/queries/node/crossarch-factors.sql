-- title: The one number a model that the slowed variant is given
-- column series: {label = "from the ladder", kind = "code"}
-- column concurrency: {label = "at concurrency"}
-- column factor: {label = "share of the roofline's rate", format = ".1%"}
SELECT seal, model, series, concurrency, factor FROM level_fidelity_factors WHERE subject = 'mi325x-cookbook' ORDER BY model
