-- title: Contamination matrix: whose needle leaked where
-- column subject: {label = "target"}
-- column asker: {label = "reply to"}
-- column owner: {label = "carried the needle of"}
-- column code: {label = "code", kind = "code"}
-- column timing: {label = "the owner was"}
-- empty: no reply of any gate carried the needle of another request
SELECT seal, subject, asker, owner, code, timing
FROM needle_gate_leaks
ORDER BY subject, asker, owner
