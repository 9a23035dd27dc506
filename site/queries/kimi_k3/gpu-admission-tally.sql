-- title: Cells of pool and context in which a law holds at every number of requests offered
-- column cells: {label = "cells"}
-- column block_law: {label = "block law holds"}
-- column bytes_law: {label = "bytes per token hold"}
-- column n_serves: {label = "serves of a cell, least"}
-- empty: no admission on a GPU has been sealed
WITH cells AS (
  SELECT c.seal, s.pool_bytes, c.context, bool_and(c.block_law_holds) AS block_law, bool_and(c.bytes_law_holds) AS bytes_law,
         count(DISTINCT c.serve) AS serves
  FROM launch_check_admissions AS c JOIN launch_predictions_startups AS s ON s.launch = c.launch
  WHERE c.filled GROUP BY ALL
)
SELECT seal, count(*) AS cells, count(*) FILTER (WHERE block_law) AS block_law, count(*) FILTER (WHERE bytes_law) AS bytes_law,
       min(serves) AS n_serves
FROM cells GROUP BY seal ORDER BY seal
