-- title: Recorded failures, and what catches each
-- column source: {label = "recorded in"}
-- column symptom: {label = "what happens"}
-- column how: {label = "staged", kind = "badge"}
-- column why_not: {label = "why not live"}
SELECT seal, row, source, symptom, caught_by, how, why_not
FROM bring_up_rules_failures ORDER BY row
