-- title: Ladders that were published, with the workload stated for each
-- column isl: {label = "input", unit = "tokens"}
-- column osl: {label = "output", unit = "tokens"}
-- column requests: {label = "requests a level"}
-- column gpus: {label = "GPUs"}
-- column tokens: {label = "rates count"}
-- column place: {label = "page", kind = "code"}
-- column series: {hide = true}
SELECT s.seal, s.series, s.model, s.mode, s.phase, s.isl_printed AS isl, s.osl_printed AS osl, s.requests_printed AS requests,
  s.restarts, s.gpus, s.tokens, (SELECT count(*) FROM published_levels_levels l WHERE l.series = s.series AND l.seal = s.seal) AS levels, s.place
FROM published_levels_series s WHERE s.subject = 'mi325x-cookbook' ORDER BY s.model, s.mode, s.phase
