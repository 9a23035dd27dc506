-- title: Rules of a launch
-- column id: {label = "rule", kind = "code"}
-- column outcome: {label = "outcome", kind = "badge"}
-- column reason: {label = "why"}
SELECT seal, id, outcome, reason, fix, source
FROM bring_up_rules_rules ORDER BY outcome, id
