-- title: What engine versions do with a combination
-- column id: {label = "rule", kind = "code"}
-- column outcome: {label = "outcome", kind = "badge"}
-- column since: {label = "from version"}
-- column until: {label = "before version"}
-- column what: {label = "what happens"}
SELECT seal, id, outcome, since, until, what, fix, evidence
FROM bring_up_rules_engine ORDER BY outcome, id
