-- title: Memory of one GPU in the published layout
-- column platform: {label = "platform"}
-- column part: {label = "part"}
-- column gib: {label = "size", unit = "GiB", format = ".1f"}
-- column hbm: {label = "memory of the GPU", unit = "GiB", format = ".0f"}
-- empty: the budget has not been derived
-- The layout that the publication serves: the decode pool with attention split over two GPUs.
WITH chosen AS (SELECT * FROM memory_budget_layouts WHERE tp = 2 AND nodes = 2 AND platform IN (SELECT platform FROM capacity_law_terms))
SELECT c.seal, upper(c.platform) AS platform, u.part, u.bytes / 1073741824.0 AS gib, c.hbm / 1073741824.0 AS hbm
FROM chosen AS c, LATERAL (VALUES ('experts', c.experts_resident), ('attention and dense', c.dense_low), ('transfer heap', c.heap),
  ('overhead', c.overhead), ('left for KV', c.headroom_high)) AS u(part, bytes)
WHERE u.bytes > 0
ORDER BY platform DESC, list_position(['experts', 'attention and dense', 'transfer heap', 'overhead', 'left for KV'], u.part)
