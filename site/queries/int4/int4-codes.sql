-- title: Where the load-time rule sends each magnitude
-- column peak: {label = "largest in the block", format = ".1f"}
-- column magnitude: {label = "MXFP4 magnitude", format = ".1f"}
-- column code: {label = "int4 code"}
-- column after: {label = "becomes", format = ".3f"}
-- empty: the error study has not been derived
SELECT seal, peak, magnitude, code, value AS after
FROM int4_code_map_codes WHERE rule = 'amax7'
ORDER BY peak DESC, magnitude
