-- title: Every claim with its verdict
-- column document: {label = "document", kind = "code"}
-- column section: {label = "section", kind = "code"}
-- column claim: {label = "claim", kind = "code", link = "href"}
-- column page: {hide = true}
-- column href: {hide = true}
-- column verdict: {label = "verdict", kind = "badge"}
-- column derived: {label = "the others give"}
-- column change: {label = "smallest change"}
SELECT seal, subject AS document, section, claim, page, about, printed, verdict, derived, change,
  'claims/' || subject || '/' || section || '.html#' || page AS href
FROM claims_audit_claims
WHERE page <> ''
ORDER BY document, position
