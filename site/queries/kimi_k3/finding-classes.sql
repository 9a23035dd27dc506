-- title: Printed output rates by request shape
-- column class: {label = "request shape"}
-- column platform: {label = "platform"}
-- column rate: {label = "output rate", unit = "tokens/s", format = "d"}
-- column ahead: {label = "ahead"}
-- column shapes: {hide = true}
-- column older_ahead: {hide = true}
-- column holds: {hide = true}
-- As printed, one run a cell: an order of prints, not of GPUs.
WITH pairs AS (
  SELECT class, isl, max(out_tokens_per_s) FILTER (platform = 'mi300x') AS older, max(out_tokens_per_s) FILTER (platform = 'mi325x') AS newer
  FROM published_decode_classes GROUP BY class, isl
), tally AS (SELECT count(*) AS shapes, count(*) FILTER (older > newer) AS older_ahead FROM pairs)
SELECT c.seal, replace(c.class, '-', ' ') AS class, upper(c.platform) AS platform, CAST(c.out_tokens_per_s AS BIGINT) AS rate,
       CASE WHEN b.older > b.newer THEN 'MI300X' ELSE 'MI325X' END AS ahead, t.shapes, t.older_ahead, t.older_ahead * 2 > t.shapes AS holds
FROM published_decode_classes AS c JOIN pairs AS b ON b.class = c.class, tally AS t ORDER BY c.isl, c.class, c.platform
