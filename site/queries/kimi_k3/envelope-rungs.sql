-- title: The envelope of the twin, rung by rung
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column max_num_seqs: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column n_requests: {label = "requests"}
-- column wall_s: {label = "wall", unit = "s", format = ".2f"}
-- column tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
-- column wall_over_floor: {label = "wall over floor", unit = "×", format = ".2f"}
-- column rate_over_single: {label = "rate over single", unit = "×", format = ".1f"}
-- column plateau: {label = "really in flight", format = ".1f"}
-- column tier: {label = "tier", hide = true}
-- column n_runs: {hide = true}
-- column n_serves: {hide = true}
SELECT r.seal, CASE WHEN starts_with(r.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, r.subject, b.platform,
       b.setting AS max_num_seqs, r.concurrency, r.n_requests, r.wall_s, r.out_tokens_per_s AS tokens_per_s,
       r.wall_s / f.wall_s AS wall_over_floor, r.out_tokens_per_s / f.out_tokens_per_s AS rate_over_single,
       r.in_flight_plateau AS plateau, r.tier, r.n_runs, b.n_serves
FROM best_run AS b JOIN rung_rate AS r ON r.seal = b.seal JOIN rung_rate AS f ON f.seal = b.seal AND f.concurrency = 1
WHERE b.probe = 'envelope' ORDER BY r.subject, r.concurrency
