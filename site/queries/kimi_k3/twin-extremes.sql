-- title: The simulation's closest and farthest printed cell, among those it was not fitted to
-- column which: {label = "which"}
-- column what: {label = "what is off"}
-- column place: {label = "where"}
-- column cell: {label = "cell"}
-- column platform: {label = "platform"}
-- column printed: {label = "printed"}
-- column simulated: {label = "simulated"}
-- column error: {label = "error", format = ".1%"}
-- column cells: {label = "cells", format = "d"}
-- empty: the fidelity table has not run
WITH held AS (
  SELECT seal, source, cell, quantity, unit, platform, printed, simulated, error, relation, count(*) OVER () AS cells
  FROM twin_fidelity_cells WHERE error IS NOT NULL
), ranked AS (
  SELECT *, row_number() OVER (ORDER BY abs(error), source, cell) AS nearest, row_number() OVER (ORDER BY abs(error) DESC, source, cell) AS farthest FROM held
)
SELECT seal, CASE WHEN nearest = 1 THEN 'closest' ELSE 'farthest' END AS which, source AS place, cell, upper(platform) AS platform,
       CASE WHEN quantity LIKE 'ttft%' THEN 'time to first token' WHEN quantity LIKE 'itl%' OR quantity LIKE 'tpot%' THEN 'time between tokens'
            WHEN quantity LIKE '%tokens_per_s' THEN 'rate of tokens' ELSE quantity END
         AS what,
       CAST(CAST(printed AS DECIMAL(12, 1)) AS VARCHAR) || ' ' || unit AS printed, CAST(CAST(simulated AS DECIMAL(12, 1)) AS VARCHAR) || ' ' || unit AS simulated, error, cells, relation
FROM ranked WHERE nearest = 1 OR farthest = 1 ORDER BY nearest
