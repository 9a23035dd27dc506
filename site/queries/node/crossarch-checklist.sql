-- title: Decisions before serving, from rules and specs
-- column version: {label = "engine", kind = "code"}
-- column setting: {label = "setting", kind = "code"}
-- column published: {label = "published so"}
-- column outcome: {label = "outcome", kind = "badge"}
-- column what: {label = "what happens"}
-- column fix: {label = "what to do"}
SELECT seal, model, version, choice, setting, CASE WHEN published THEN 'yes' END AS published, outcome, what, nullif(fix, '') AS fix,
  nullif(rules, '') AS rules, nullif(evidence, '') AS evidence
FROM decision_checklist_items WHERE subject = 'mi325x-cookbook' ORDER BY model, version, outcome = 'unknown', choice, setting
