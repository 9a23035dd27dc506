-- title: One study, two reports: what both print
-- column claim: {label = "claim", kind = "code"}
-- column earlier: {label = "earlier report", seal = "seal_earlier"}
-- column later: {label = "publication", seal = "seal_later"}
-- column earlier_verdict: {label = "verdict there", seal = "seal_earlier"}
-- column later_verdict: {label = "verdict here", seal = "seal_later"}
SELECT list_value(a.seal, b.seal) AS seal, a.seal AS seal_earlier, b.seal AS seal_later, b.claim, b.about,
  a.printed AS earlier, b.printed AS later, a.verdict AS earlier_verdict, b.verdict AS later_verdict
FROM claims_audit_claims a JOIN claims_audit_claims b ON a.claim = b.claim
WHERE a.subject = 'earlier-report' AND b.subject = 'amd-di-kimi-k3' AND a.same = '' AND b.same = ''
ORDER BY a.printed = b.printed, b.position
