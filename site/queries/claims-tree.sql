-- title: Every claim with its derivation, artifacts, smallest change and earlier verdicts
-- column document: {hide = true}
-- column section: {hide = true}
-- column claim: {hide = true}
-- column page: {hide = true}
-- column link: {hide = true}
-- column depth: {hide = true}
-- column role: {label = ""}
-- column name: {label = "", kind = "code", link = "link"}
-- column about: {label = ""}
-- column printed: {label = "prints"}
-- column formula: {label = "", kind = "code"}
-- column outcome: {label = "", kind = "badge"}
-- column text: {label = ""}
-- column change: {label = "would hold with"}
-- column before: {label = "audit", kind = "digest"}
-- What a claim says comes first; its identifier and the interval of its print stand in the fold, where they were printed.
SELECT t.seal, t.subject AS document, c.section, t.claim, c.page, t.depth, t.role,
  CASE WHEN t.role = 'printed at' THEN t.claim WHEN t.depth > 0 OR coalesce(t.about, '') = '' THEN t.name END AS name,
  CASE WHEN t.depth = 0 AND t.about <> '' AND t.claim LIKE 't_.%.%' THEN t.about || ', row ' || split_part(t.claim, '.', 2) ELSE t.about END AS about, t.printed, t.formula, CASE WHEN t.depth > 0 THEN t.interval END AS interval, t.outcome, t.text,
  CASE WHEN t.depth = 0 THEN c.change END AS change, t.before, t.link
FROM claims_audit_tree t JOIN claims_audit_claims c ON c.seal = t.seal AND c.position = t.position
WHERE t.role <> 'smallest change'
ORDER BY document, t.position, t.node
