-- title: What a token costs each model
-- column gpus: {label = "GPUs"}
-- column compute_format: {label = "computed in", kind = "code"}
-- column active: {label = "active parameters", unit = "B", format = ".1f"}
-- column weights: {label = "weights a large batch reads", unit = "GB", format = ".0f"}
-- column kv: {label = "cache a token", unit = "kB", format = ".1f"}
-- column compute_ceiling: {label = "compute ceiling", unit = "tokens/s", format = ".0f"}
SELECT seal, model, gpus, compute_format, active_parameters / 1e9 AS active, weight_bytes / 1e9 AS weights,
  kv_bytes_per_token / 1e3 AS kv, compute_ceiling
FROM roofline_laws WHERE subject = 'mi325x-cookbook' AND law = (SELECT min(law) FROM roofline_laws WHERE subject = 'mi325x-cookbook')
ORDER BY model
