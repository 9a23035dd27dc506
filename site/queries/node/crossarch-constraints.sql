-- title: What the document says an engine requires
-- column claimed: {label = "the document says"}
-- column version: {label = "engine", kind = "code"}
-- column outcome: {label = "the rules say", kind = "badge"}
-- column place: {label = "place", kind = "code"}
SELECT seal, "constraint", claimed, version, outcome, verdict, nullif(rules, '') AS rules, nullif(evidence, '') AS evidence, place
FROM decision_checklist_constraints WHERE subject = 'mi325x-cookbook' ORDER BY "constraint", version
