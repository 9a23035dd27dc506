-- title: Contradictions, with the arithmetic
-- column document: {label = "document", kind = "code"}
-- column claim: {label = "claim", kind = "code", link = "href"}
-- column says: {label = "what is printed", link = "href"}
-- column href: {hide = true}
-- column place: {label = "where", kind = "code"}
-- column claimed: {label = "which stands for"}
-- column derived: {label = "the others give"}
-- column formula: {label = "formula", kind = "code"}
-- column inputs: {label = "from"}
-- column change: {label = "would hold with"}
-- column meaning: {label = "finding"}
-- column strength: {label = "at a wider tolerance"}
SELECT seal, subject AS document, claim, CASE WHEN coalesce(about, '') = '' THEN claim WHEN claim LIKE 't_.%.%' THEN about || ', row ' || split_part(claim, '.', 2) ELSE about END AS says, place, about, printed, claimed, derived, formula, inputs, assuming, change, meaning,
  CASE WHEN survives THEN 'still contradicted' ELSE 'no longer' END AS strength,
  'claims/' || subject || '/' || section || '.html#' || page AS href
FROM claims_audit_claims
WHERE verdict = 'contradicted' AND page <> ''
ORDER BY strength DESC, document, position
