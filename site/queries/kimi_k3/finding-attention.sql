-- title: Weights of the full-attention layers
-- column what: {label = "what"}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- column number: {label = "size", unit = "GiB", format = ".1f"}
WITH printed AS (SELECT seal, value FROM published_memory_figures WHERE item = 'attention row'),
ours AS (SELECT seal, bytes / 1073741824.0 AS gib FROM memory_budget_components WHERE component = 'mla')
SELECT u.seal, u.what, u.source, u.number, o.gib * 2 < p.value AS holds
FROM printed AS p, ours AS o, LATERAL (VALUES
  (p.seal, 'printed', 'printed', p.value), (o.seal, 'by the configuration', 'derived', o.gib)) AS u(seal, what, source, number)
ORDER BY list_position(['printed', 'by the configuration'], u.what)
