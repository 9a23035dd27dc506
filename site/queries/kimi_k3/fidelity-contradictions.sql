-- title: Printed rows whose columns disagree
-- column source: {label = "where"}
-- column cell: {label = "row"}
-- column printed: {label = "printed", unit = "tokens/s", format = ".4g", seal = "our_seal"}
-- column implied: {label = "implied by the row", unit = "tokens/s", format = ".4g", seal = "our_seal"}
-- column excess: {label = "printed over implied, less one", format = ".0%", seal = "our_seal"}
-- column verdict: {label = "verdict", kind = "badge", link = "href"}
-- column href: {hide = true}
-- column claim: {hide = true}
-- column argument: {label = "why"}
-- empty: the fidelity table has not run
-- The ledger of the publication is the only place that gives a verdict.
WITH clash AS (
  SELECT *, 't' || right(source, 1) || '.' || CASE WHEN starts_with(cell, 'con ') THEN 'c' || substr(cell, 5) || '.out'
         ELSE CASE cell WHEN 'long-context' THEN 'long' ELSE 'peak' END || '.tot' || substr(platform, 3, 3) END AS claim
  FROM twin_fidelity_contradictions
)
SELECT [f.seal, c.seal] AS seal, f.seal AS our_seal, f.source, upper(f.platform) AS platform, f.cell, f.quantity, f.printed, f.implied,
       f.claim, c.verdict, f.excess, 'claims/' || c.subject || '/' || c.section || '.html#' || c.page AS href, f.argument
FROM clash AS f
LEFT JOIN claims_audit_claims AS c ON c.subject = 'amd-di-kimi-k3' AND c.claim = f.claim
ORDER BY f.source, platform DESC, f.cell
