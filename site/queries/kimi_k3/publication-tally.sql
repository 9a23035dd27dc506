-- title: Verdicts, counted
-- column verdict: {label = "verdict", kind = "badge"}
-- empty: the check has not been derived
SELECT [r.seal, c.seal] AS seal, c.verdict, count(*) AS figures
FROM publication_check_readings AS r
JOIN claims_audit_claims AS c ON c.subject = r.subject AND c.claim = r.claim
GROUP BY r.seal, c.seal, c.verdict
ORDER BY c.verdict
