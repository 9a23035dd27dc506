-- title: Contradicted only if something holds that is not printed
-- column document: {label = "document", kind = "code"}
-- column claim: {label = "claim", kind = "code", link = "href"}
-- column says: {label = "what is printed", link = "href"}
-- column href: {hide = true}
-- column derived: {label = "the others give"}
-- column formula: {label = "formula", kind = "code"}
-- column inputs: {label = "from"}
-- column change: {label = "would hold with"}
SELECT seal, subject AS document, claim, CASE WHEN coalesce(about, '') = '' THEN claim ELSE about END AS says, about, printed, derived, formula, inputs, assuming, change,
  'claims/' || subject || '/' || section || '.html#' || page AS href
FROM claims_audit_claims
WHERE rule = 'K3C110' AND same = ''
ORDER BY document, position
