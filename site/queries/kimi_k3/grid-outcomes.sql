-- title: Waves served, printed and on the twin
-- column context_tokens: {label = "context", unit = "tokens"}
-- column published_served: {label = "published, highest served", seal = "printed_seal"}
-- column published_failed: {label = "published, lowest failed", seal = "printed_seal"}
-- column run_served: {label = "twin, highest served", seal = "twin_seal"}
-- column run_resident: {label = "twin, most resident", seal = "twin_seal"}
-- column limit_s: {label = "time limit", unit = "s", seal = "twin_seal"}
-- empty: the fidelity table has not run
-- The twin's wave is given its longest time limit; what fails within a shorter one stands in the fidelity page.
WITH longest AS (SELECT seal, max(timeout_s) AS limit_s FROM twin_fidelity_grid GROUP BY seal),
twin AS (
  SELECT g.seal, g.platform, g.context_tokens, l.limit_s, max(g.concurrency) FILTER (g.served) AS served,
         max(g.resident) AS resident
  FROM twin_fidelity_grid AS g JOIN longest AS l ON l.seal = g.seal AND l.limit_s = g.timeout_s GROUP BY ALL
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform, p.context_tokens,
       p.highest_served_printed AS published_served, p.lowest_failed_printed AS published_failed,
       t.served AS run_served, t.resident AS run_resident, t.limit_s, coalesce(relation_of('twin', 'grid', concat_ws('/', p.platform, p.context_tokens), 'highest_served'),
         relation_of('twin', 'grid', concat_ws('/', p.platform, p.context_tokens), 'lowest_failed')) AS relation
FROM published_capacity_grid AS p
JOIN twin AS t ON t.platform = p.platform AND t.context_tokens = p.context_tokens
ORDER BY p.platform, p.context_tokens
