-- title: Numerals that are no claims
-- column document: {label = "document", kind = "code"}
-- column rule: {label = "rule", kind = "code"}
-- column reason: {label = "why"}
SELECT seal, subject AS document, rule, reason, numerals
FROM claims_audit_non_claims
ORDER BY document, numerals DESC, rule
