-- title: What a resident token costs a decode step, both ways of the knob
-- column pair: {hide = true}
-- column configuration: {label = "serve"}
-- column floor_ms: {label = "floor", unit = "ms", format = ".2f"}
-- column slope_us: {label = "per token", unit = "µs", format = ".4f"}
-- column pays_for: {label = "pays for"}
-- column n_serves: {label = "serves"}
-- empty: the pipeline kv-splits has not run
SELECT seal, subject AS pair, configuration, floor_s * 1e3 AS floor_ms, slope_s_per_token * 1e6 AS slope_us, pays_for, serves AS n_serves
FROM decode_law_law WHERE subject LIKE '% against %'
ORDER BY pair, configuration
