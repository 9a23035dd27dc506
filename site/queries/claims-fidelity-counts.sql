-- title: How the summary carried numbers over
-- column fidelity: {label = "carried over"}
SELECT list_sort(list(DISTINCT seal)) AS seal, fidelity, count(*) AS numbers
FROM claims_audit_claims
WHERE subject = 'kimi-k3-summary' AND same = ''
GROUP BY fidelity
ORDER BY numbers DESC, fidelity
