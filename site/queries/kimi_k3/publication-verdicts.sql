-- title: Printed figures of the memory argument, recomputed
-- column item: {label = "figure"}
-- column label: {label = "printed beside"}
-- column printed_text: {label = "printed", seal = "our_seal"}
-- column by_label: {label = "as labelled", format = ".6g", seal = "our_seal"}
-- column other: {label = "another reading", format = ".6g", seal = "our_seal"}
-- column place: {label = "printed where", hide = true}
-- column verdict: {label = "verdict", kind = "badge", link = "href"}
-- column href: {hide = true}
-- column claim: {hide = true}
-- empty: the check has not been derived
-- The ledger of the publication is the only place that gives a verdict.
SELECT [r.seal, c.seal] AS seal, r.seal AS our_seal, r.topic, r.item, r.claim, r.label, r.printed_text, r.by_label, r.other, r.unit,
       c.verdict, 'claims/' || c.subject || '/' || c.section || '.html#' || c.page AS href, r.why, r.place, r.relation
FROM publication_check_readings AS r
JOIN claims_audit_claims AS c ON c.subject = r.subject AND c.claim = r.claim
ORDER BY r.topic, r.item
