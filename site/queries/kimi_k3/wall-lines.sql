-- title: Wall-clock against output length: the printed line and the twin's requests
-- column source: {label = "from"}
-- column osl: {label = "output tokens", unit = "tokens", format = "d"}
-- column wall_s: {label = "wall", unit = "s", format = ".2f"}
-- column relation: {label = "relation to the twin"}
-- The printed line is drawn at the lengths that the twin's sweep used; the twin was set to it: in-sample.
WITH chosen AS (
  SELECT f.seal, f.subject FROM wall_law_fit AS f JOIN artifacts AS a ON a.seal = f.seal AND a.verdict_ok
  WHERE f.selection = 'all' AND regexp_full_match(f.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?')
  QUALIFY row_number() OVER (PARTITION BY f.subject ORDER BY f.n DESC, f.seal) = 1
), points AS (
  SELECT p.seal, p.platform, p.osl, p.wall_s, p.position FROM wall_law_points AS p WHERE p.selection = 'all' AND p.seal IN (SELECT seal FROM chosen)
)
SELECT [seal] AS seal, 'twin, each request' AS source, upper(platform) AS platform, osl, wall_s, NULL AS relation FROM points
UNION ALL
SELECT DISTINCT [w.seal, p.seal], 'printed line', upper(w.platform), p.osl, w.c0_s + w.k_s_per_token * p.osl,
       relation_of('twin', 'wall_law', w.platform, 'k_s_per_token')
FROM published_decode_wall_law AS w JOIN points AS p ON p.platform = w.platform
ORDER BY source, platform, osl, wall_s
