-- title: The worked example, published and predicted
-- column printed: {label = "as printed", seal = "printed_seal", disputed = "disputed"}
-- column published: {label = "published", format = ".4g", seal = "printed_seal", disputed = "disputed"}
-- column disputed: {hide = true}
-- column predicted: {label = "by its own formulas", format = ".2f", seal = "our_seal"}
-- column by_blocks: {label = "by the block law", format = ".2f", seal = "our_seal"}
-- column verdict: {label = "verdict", kind = "badge"}
-- column claim: {hide = true}
-- empty: the check has not been derived
-- Formulas and inputs are those of the publication: same-law, so no difference is shown.
WITH ours AS (
  SELECT [r.seal, c.seal] AS seal, r.item, r.subject, r.claim, r.printed, r.by_label, r.other, r.unit, c.verdict
  FROM publication_check_readings AS r
  JOIN claims_audit_claims AS c ON c.subject = r.subject AND c.claim = r.claim
  WHERE r.topic IN ('worked example', 'concurrency')
), steps AS (
  SELECT e.seal, e.position, e.step, p.platform, CASE p.platform WHEN 'mi300x' THEN e.mi300x ELSE e.mi325x END AS printed,
         CASE e.step WHEN 'wall-clock of a reply' THEN 'wall at OSL' WHEN 'requests that fit' THEN 'N_max ' || p.platform || ' ' || c.value_printed
                     WHEN 'slots in flight' THEN 'in-flight slots' WHEN 'holds the sessions asked for' THEN 'headroom on KV' END AS item
  FROM published_recipe_worked_example AS e, published_recipe_slots AS p, published_recipe_question AS c
  WHERE c.quantity = 'context'
)
SELECT list_prepend(s.seal, o.seal) AS seal, s.seal AS printed_seal, o.seal AS our_seal, upper(s.platform) AS platform, s.step, s.printed,
       o.printed AS published, o.by_label AS predicted, o.other AS by_blocks, o.unit, o.claim, contradicted(o.subject, o.claim) AS disputed, o.verdict, relation_of('formula', 'worked_example', 'N_max at 200K', s.platform) AS relation
FROM steps AS s
JOIN ours AS o ON starts_with(o.item, s.item) AND contains(o.item, s.platform)
ORDER BY s.position, platform DESC
