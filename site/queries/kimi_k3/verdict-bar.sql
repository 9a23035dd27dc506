-- title: Verdicts on the publication's claims
-- column verdict: {label = "verdict", kind = "badge"}
-- column claims: {label = "claims", format = "d"}
-- column middle: {label = "middle of its part of the bar", hide = true}
SELECT s.seal, u.verdict, u.claims,
  sum(u.claims) OVER (ORDER BY list_position(['supported', 'repeats', 'contradicted', 'undecidable', 'unbacked'], u.verdict)) - u.claims / 2 AS middle
FROM claims_audit_summary AS s, LATERAL (VALUES ('supported', s.supported), ('repeats', s.own_claims - s.supported - s.contradicted - s.undecidable - s.unbacked), ('contradicted', s.contradicted),
  ('undecidable', s.undecidable), ('unbacked', s.unbacked)) AS u(verdict, claims)
WHERE s.document = 'amd-di-kimi-k3' AND u.claims > 0 ORDER BY list_position(['supported', 'repeats', 'contradicted', 'undecidable', 'unbacked'], u.verdict)
