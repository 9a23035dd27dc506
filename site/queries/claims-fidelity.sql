-- title: The summary against the publication, number by number
-- column fidelity: {label = "carried over"}
-- column claim: {label = "claim", kind = "code", link = "href"}
-- column href: {hide = true}
-- column printed: {label = "the summary prints", disputed = "disputed"}
-- column disputed: {hide = true}
-- column change: {label = "would be faithful as"}
-- column note: {label = "what is lost"}
SELECT seal, fidelity, claim, printed, change, note,
  'claims/' || subject || '/' || section || '.html#' || page AS href, contradicted(subject, claim) AS disputed
FROM claims_audit_claims
WHERE subject = 'kimi-k3-summary' AND same = ''
ORDER BY fidelity DESC, position
