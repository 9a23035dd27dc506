-- title: Models of the study, each with a page of its own
-- column model: {label = "model", link = "href"}
-- column href: {hide = true}
-- column title: {hide = true}
-- column n_levels: {label = "levels"}
-- column n_findings: {label = "findings"}
-- column n_beyond: {label = "rates above the roofline"}
-- column n_cells: {label = "cells simulated"}
SELECT [r.seal, f.seal] AS seal, r.model, r.model AS title, 'crossarch/model-' || r.model || '.html' AS href, r.n_levels,
  (SELECT count(*) FROM table_reading_findings g WHERE g.seal = r.seal AND g.model = r.model) AS n_findings,
  f.n_beyond, f.n_cells
FROM (SELECT seal, model, count(*) AS n_levels FROM table_reading_levels WHERE subject = 'mi325x-cookbook' GROUP BY seal, model) r
JOIN (SELECT seal, model, count(*) FILTER (WHERE beyond) AS n_beyond, count(simulated) AS n_cells
      FROM level_fidelity_cells WHERE subject = 'mi325x-cookbook' AND variant = 'roofline' GROUP BY seal, model) f ON f.model = r.model
ORDER BY r.model
