-- title: The load-time rule in three arithmetics
-- column source: {label = "weights"}
-- column relative_rms: {label = "relative RMS", format = ".2%"}
-- column bias: {label = "magnitude bias", format = ".1%"}
-- empty: the error study has not been derived
SELECT seal, source, arithmetic, relative_rms, bias
FROM int4_error_errors WHERE rule = 'amax7'
ORDER BY source, relative_rms DESC, arithmetic
