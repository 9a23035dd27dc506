-- title: Wall law of this serve
-- column c0_s: {label = "fixed cost", unit = "s", format = ".3f"}
-- column k_ms: {label = "per output token", unit = "ms", format = ".2f"}
-- empty: no output-length sweep was run
SELECT seal, c0_s, k_s_per_token * 1000 AS k_ms FROM wall_law_fit ORDER BY seal
