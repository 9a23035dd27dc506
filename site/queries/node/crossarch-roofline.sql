-- title: Published rates beside the bounds of the roofline
-- column series: {hide = true}
-- column concurrency: {label = "concurrency"}
-- column in_flight: {label = "in flight", format = ".0f"}
-- column published: {label = "published", unit = "tokens/s", format = ".0f"}
-- column overlap: {label = "bound, overlapped", unit = "tokens/s", format = ".0f"}
-- column serial: {label = "bound, one after the other", unit = "tokens/s", format = ".0f"}
-- column overlap_over_published: {label = "overlapped over published", unit = "x", format = ".2f", difference = true}
SELECT seal, model, replace(replace(series, model || '/', ''), 'validation', 'quick mode') AS ladder, series, concurrency, lengths, in_flight, published, overlap, serial, CASE WHEN lengths = 'stated' THEN overlap_over_published END AS overlap_over_published, relation
FROM roofline_cells WHERE subject = 'mi325x-cookbook' ORDER BY series, concurrency, lengths
