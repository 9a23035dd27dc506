-- title: Every claim of the publication by its verdict
-- column claim: {label = "claim", kind = "code", more = true}
-- column about: {label = "what it says"}
-- column printed: {label = "printed"}
-- column verdict: {label = "verdict", kind = "badge"}
-- column across: {label = "square, across", hide = true}
-- column down: {label = "square, down", hide = true}
-- empty: no audit has been sealed
-- The squares stand column by column, in the order of the verdicts; a side of the waffle follows from how many there are.
WITH claims AS (
  SELECT seal, claim, coalesce(about, '') AS about, printed, verdict, position
  FROM claims_audit_claims WHERE subject = 'amd-di-kimi-k3' AND coalesce(same, '') = ''
), placed AS (
  SELECT *, row_number() OVER (ORDER BY list_position(['supported', 'repeats', 'contradicted', 'undecidable', 'unbacked'], verdict), position) - 1 AS place,
         CAST(floor(sqrt(count(*) OVER () / 3)) AS BIGINT) AS side FROM claims
)
SELECT seal, verdict, printed, about, claim, CAST(place // side AS BIGINT) AS across, CAST(place % side AS BIGINT) AS down
FROM placed ORDER BY place
