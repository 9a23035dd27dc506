-- title: Verdicts by document
-- column document: {label = "document", kind = "code"}
-- column own_claims: {label = "claims"}
-- column repeats: {label = "repeats another", about = "prints a number again that stands elsewhere: no support of its own"}
-- column in_headline: {label = "at a wider tolerance"}
-- column measured: {label = "backed by a measurement"}
-- column unmeasured: {label = "not backed by a measurement"}
-- column covered: {label = "numerals covered", format = ".1%"}
-- column non_claims: {label = "no claims"}
-- column non_claim_share: {label = "share of no claims", format = ".1%"}
-- column small_n: {label = "quantiles of too few"}
SELECT seal, document, numerals, own_claims, supported,
  own_claims - supported - contradicted - undecidable - unbacked AS repeats, contradicted, in_headline, undecidable, unbacked, measured,
  own_claims - measured AS unmeasured, covered, non_claims, non_claim_share, small_n
FROM claims_audit_summary
ORDER BY document
