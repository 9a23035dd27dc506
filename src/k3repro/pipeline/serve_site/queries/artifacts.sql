-- title: Artifacts of this build
-- column name: {label = "artifact", kind = "code"}
-- column subject: {label = "about"}
-- column kind: {label = "kind of run"}
-- column data: {label = "digest of the rows", kind = "digest"}
-- column file: {label = "file", kind = "file"}
-- column parameters: {label = "parameters", kind = "json"}
-- empty: nothing has been sealed yet
SELECT seal, name, subject, kind, clock, verdict_ok, data, seal AS file,
  CASE WHEN length(parameters) > 1000 THEN 'long: read them from the file' ELSE parameters END AS parameters
FROM artifacts
ORDER BY name, subject, seal
