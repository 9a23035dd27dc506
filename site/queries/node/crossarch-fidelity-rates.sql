-- title: Total rates against the simulated node
-- column series: {label = "ladder"}
-- column concurrency: {label = "concurrency"}
-- column rate: {label = "total rate", unit = "tokens/s", format = ".0f"}
SELECT seal, series, model, concurrency, source, rate FROM (
  SELECT DISTINCT seal, series, model, concurrency, 'printed' AS source, printed AS rate
  FROM level_fidelity_cells WHERE subject = 'mi325x-cookbook' AND quantity = 'total_tokens_per_s' AND simulated IS NOT NULL
  UNION ALL
  SELECT seal, series, model, concurrency, variant AS source, simulated AS rate
  FROM level_fidelity_cells WHERE subject = 'mi325x-cookbook' AND quantity = 'total_tokens_per_s' AND simulated IS NOT NULL
) ORDER BY series, concurrency, source
