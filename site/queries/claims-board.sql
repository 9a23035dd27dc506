-- title: Every claim with its verdict
-- column document: {label = "document", kind = "code"}
-- column place: {label = "where", kind = "code"}
-- column claim: {label = "claim", kind = "code"}
-- column about: {label = "about"}
-- column printed: {label = "printed"}
-- column verdict: {label = "verdict"}
-- column derived: {label = "interval"}
-- column formula: {label = "follows from", kind = "code"}
-- column change: {label = "smallest change"}
SELECT seal, subject AS document, place, claim, about, printed, verdict, derived, formula, change
FROM claims_audit_claims
WHERE same = ''
ORDER BY document, position
