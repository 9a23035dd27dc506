-- title: Claims of the tiny document
-- column claim: {label = "claim", kind = "code"}
-- column printed: {label = "printed"}
-- column verdict: {label = "verdict", kind = "badge"}
SELECT seal, claim, printed, verdict FROM claims_audit_claims WHERE subject = 'tiny-lab' ORDER BY position
