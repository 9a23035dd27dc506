-- title: How a claim was checked
-- column document: {label = "document", kind = "code"}
-- column claim: {label = "claim", kind = "code"}
-- column role: {label = "check"}
-- column formula: {label = "formula", kind = "code"}
-- column inputs: {label = "from"}
-- column claimed: {label = "the print stands for"}
-- column derived: {label = "the check gives"}
-- column outcome: {label = "outcome"}
-- column assuming: {label = "assuming"}
-- column note: {label = "note"}
SELECT seal, subject AS document, claim, role, formula, inputs, claimed, derived, outcome, assuming, note
FROM claims_audit_steps
ORDER BY document, position, step
