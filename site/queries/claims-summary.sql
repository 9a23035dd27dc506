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
-- column contradicted_elsewhere: {label = "contradicted, in the other documents", seal = "seal_all"}
-- column listed: {label = "rows of the table of contradictions", seal = "seal_all"}
-- column printed_again: {label = "rows that print a claim again, with another number", seal = "seal_all"}
-- A row of the table is a contradicted claim, or another printing of a claim with a number that cannot hold.
WITH listed AS (SELECT count(*) AS n FROM claims_audit_claims WHERE verdict = 'contradicted' AND page <> ''),
whole AS (SELECT list(seal ORDER BY seal) AS seals, sum(contradicted) AS n FROM claims_audit_summary)
SELECT seal, seals AS seal_all, document, numerals, own_claims, supported,
  own_claims - supported - contradicted - undecidable - unbacked AS repeats, contradicted, in_headline, undecidable, unbacked, measured,
  own_claims - measured AS unmeasured, covered, non_claims, non_claim_share, small_n,
  CAST(whole.n AS BIGINT) - contradicted AS contradicted_elsewhere, listed.n AS listed, listed.n - CAST(whole.n AS BIGINT) AS printed_again
FROM claims_audit_summary, listed, whole
ORDER BY document
