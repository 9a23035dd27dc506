-- title: Figures that follow from others
-- column formula: {label = "from", kind = "code"}
-- column printed: {label = "printed", seal = "our_seal"}
-- column value_low: {label = "recomputed, at least", format = ".4g", seal = "our_seal"}
-- column value_high: {label = "at most", format = ".4g", seal = "our_seal"}
-- column verdict: {label = "verdict", kind = "badge", link = "href"}
-- column href: {hide = true}
-- column claim: {hide = true}
-- empty: no table has been read
-- The ledger of the document is the only place that gives a verdict; a print of the cookbook alone is in none.
SELECT CASE WHEN c.seal IS NULL THEN [d.seal] ELSE [d.seal, c.seal] END AS seal, d.seal AS our_seal, d.what, nullif(d.model, '') AS model, d.formula,
  nullif(d.printed, '') AS printed, d.value_low, d.value_high, d.unit, c.claim, c.verdict,
  'claims/' || c.subject || '/' || c.section || '.html#' || c.page AS href
FROM table_reading_derived AS d
LEFT JOIN claims_audit_claims AS c ON c.subject = 'mi325x-crossarch' AND c.place = d.place
WHERE d.subject = 'mi325x-cookbook'
ORDER BY d.what, d.model
