-- title: What each rule costs, by source of weights
-- column source: {label = "weights"}
-- column relative_rms: {label = "relative RMS", format = ".2%"}
-- column sqnr_db: {label = "SQNR", unit = "dB", format = ".1f"}
-- column bias: {label = "magnitude bias", format = ".1%"}
-- column merged: {label = "merged elements", format = ".1%"}
-- column exact_blocks: {label = "exact blocks", format = ".1%"}
-- empty: the error study has not been derived
SELECT seal, source, rule, relative_rms, sqnr_db, bias, merged, exact_blocks, blocks
FROM int4_error_errors WHERE arithmetic = 'bf16'
ORDER BY source, relative_rms DESC, rule
