-- title: Numbers of the document
-- column quantity: {label = "what"}
-- column model: {label = "of"}
-- column place: {label = "place", kind = "code"}
-- column printed: {disputed = "disputed"}
-- column disputed: {hide = true}
SELECT f.seal, f.quantity, f.model, f.value_printed AS printed, f.unit, f.place,
       contradicted(f.subject, (SELECT any_value(c.claim) FROM claims_audit_claims AS c WHERE c.subject = f.subject AND c.place = f.place)) AS disputed
FROM published_figures_figures AS f WHERE f.subject = 'mi325x-crossarch'
ORDER BY f.place, f.quantity, f.model
