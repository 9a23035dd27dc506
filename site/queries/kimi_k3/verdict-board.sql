-- title: Verdicts by document
-- empty: no audit has been sealed
SELECT seal, document, u.verdict, u.claims
FROM claims_audit_summary, LATERAL (VALUES ('supported', supported), ('repeats', own_claims - supported - contradicted - undecidable - unbacked), ('contradicted', contradicted), ('undecidable', undecidable), ('unbacked', unbacked)) AS u(verdict, claims)
ORDER BY document, verdict
