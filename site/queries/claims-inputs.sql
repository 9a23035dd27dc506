-- title: Artifacts behind an audit
-- column document: {hide = true}
-- column digest: {label = "seal", kind = "digest"}
-- column file: {label = "file", kind = "file"}
SELECT seal, subject AS document,
  CASE name WHEN 'claims-audit' THEN 'the verdicts' ELSE 'the skeleton of the document' END AS what,
  seal AS digest, seal AS file
FROM artifacts
WHERE name IN ('claims-audit', 'skeleton')
ORDER BY document, name
