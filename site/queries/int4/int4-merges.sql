-- title: Neighbouring magnitudes that became one
-- column source: {label = "weights"}
-- column pair: {label = "magnitudes"}
-- column share: {label = "blocks", format = ".1%"}
-- empty: the error study has not been derived
SELECT seal, source, rule, printf('%g and %g', low, high) AS pair, share
FROM int4_error_merges WHERE rule IN ('amax7', 'mse') AND source IN ('uniform', 'gaussian')
ORDER BY source, rule, low
