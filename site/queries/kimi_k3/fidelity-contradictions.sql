-- title: Printed rows whose columns cannot all be true
-- column source: {label = "where"}
-- column cell: {label = "row"}
-- column printed: {label = "printed", unit = "tokens/s", format = ".4g"}
-- column implied: {label = "implied by the row", unit = "tokens/s", format = ".4g"}
-- column excess: {label = "printed over implied, less one", format = ".0%"}
-- column argument: {label = "why"}
-- empty: the fidelity table has not run
SELECT seal, source, upper(platform) AS platform, cell, quantity, printed, implied, excess, argument
FROM twin_fidelity_contradictions ORDER BY source, platform DESC, cell
