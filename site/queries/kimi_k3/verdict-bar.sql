-- title: Verdicts on the publication's claims
-- column verdict: {label = "verdict", kind = "badge"}
-- column claims: {label = "claims", format = "d"}
SELECT s.seal, u.verdict, u.claims
FROM claims_audit_summary AS s, LATERAL (VALUES ('supported', s.supported), ('contradicted', s.contradicted),
  ('undecidable', s.undecidable), ('unbacked', s.unbacked)) AS u(verdict, claims)
WHERE s.document = 'amd-di-kimi-k3' ORDER BY list_position(['supported', 'contradicted', 'undecidable', 'unbacked'], u.verdict)
