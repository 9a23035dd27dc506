-- title: Quantiles quoted for fewer observations than they need
-- column claim: {label = "claim", kind = "code", link = "href"}
-- column href: {hide = true}
-- column place: {label = "where", kind = "code"}
-- column note: {label = "why"}
SELECT seal, claim, place, about, printed, note,
  'claims/' || subject || '/' || section || '.html#' || page AS href
FROM claims_audit_claims
WHERE rule = 'K3C105' AND same = ''
ORDER BY subject, position
