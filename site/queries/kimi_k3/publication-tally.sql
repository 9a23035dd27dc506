-- title: Verdicts, counted
-- empty: the check has not been derived
SELECT seal, verdict, count(*) AS figures
FROM publication_check_verdicts
GROUP BY seal, verdict
ORDER BY verdict
