-- title: Every claim with its derivation, artifacts, smallest change and earlier verdicts
-- column document: {hide = true}
-- column section: {hide = true}
-- column claim: {hide = true}
-- column page: {hide = true}
-- column link: {hide = true}
-- column depth: {hide = true}
-- column role: {label = ""}
-- column name: {label = "", kind = "code", link = "link"}
-- column about: {label = ""}
-- column printed: {label = "prints"}
-- column formula: {label = "", kind = "code"}
-- column outcome: {label = "", kind = "badge"}
-- column text: {label = ""}
-- column before: {label = "audit", kind = "digest"}
SELECT t.seal, t.subject AS document, c.section, t.claim, c.page, t.depth, t.role, t.name, t.about, t.printed, t.formula,
  t.interval, t.outcome, t.text, t.before, t.link
FROM claims_audit_tree t JOIN claims_audit_claims c ON c.seal = t.seal AND c.position = t.position
ORDER BY document, t.position, t.node
