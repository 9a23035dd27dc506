-- title: Cells of the capacity grid on the twin
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column concurrency: {label = "in flight"}
-- column osl: {label = "output", unit = "tokens"}
-- column block_law: {label = "fits by blocks"}
-- column pool_law: {label = "fits by pool"}
-- column slots: {label = "slots"}
-- column completed: {label = "completed"}
-- column resident: {label = "most resident"}
-- column waiting: {label = "most waiting"}
-- column preemptions: {label = "preempted"}
-- column kv_usage: {label = "pool in use", format = ".0%"}
-- column wall_s: {label = "wave", unit = "s", format = ".0f"}
-- column timeout_s: {label = "its time limit", unit = "s", format = ".0f"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: this probe has not run
SELECT c.seal, CASE WHEN starts_with(c.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, c.subject, c.context, c.concurrency,
       CAST(json_extract(a.parameters, '$.osl') AS BIGINT) AS osl, c.block_law, c.pool_law, c.slots, c.completed,
       c.resident, c.waiting, c.preemptions, c.kv_usage, c.wall_s, c.timeout_s, c.verdict,
       json_extract_string(a.verdict, '$.standing') AS standing, c.completed AS n_requests, a.serves AS n_serves
FROM capacity_grid_cells AS c JOIN artifacts AS a ON a.seal = c.seal AND a.verdict_ok
ORDER BY c.subject, osl, c.context, c.concurrency, c.seal
