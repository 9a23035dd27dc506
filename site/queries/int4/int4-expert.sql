-- title: Relative RMS at the outputs of an expert
-- column source: {label = "weights"}
-- column stage: {label = "at"}
-- column position: {hide = true}
-- column relative_rms: {label = "relative RMS", format = ".1%"}
-- empty: the error study has not been derived
SELECT seal, source, rule, stage, position, relative_rms, experts, tokens
FROM int4_expert_error_outputs
ORDER BY source, rule, position
