-- title: Rules of a launch
-- column id: {label = "rule", kind = "code"}
-- column outcome: {label = "outcome", kind = "badge"}
-- column reason: {label = "why"}
-- column fix: {label = "fix"}
-- column source: {label = "source"}
SELECT seal, id, outcome, reason, fix, source
FROM bring_up_rules_rules ORDER BY outcome, id
