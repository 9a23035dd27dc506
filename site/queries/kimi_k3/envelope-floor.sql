-- title: Wall-clock over that of a single request
-- column source: {label = "from"}
-- column setting: {label = "MAX_NUM_SEQS"}
-- column concurrency: {label = "in flight"}
-- column over_floor: {label = "wall over the floor", format = ".2f"}
-- column relation: {label = "relation to the twin"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
SELECT r.seal, 'twin' AS source, b.platform, b.setting, r.concurrency, r.wall_s / f.wall_s AS over_floor, NULL AS relation, r.n_requests
FROM best_run AS b JOIN rung_rate AS r ON r.seal = b.seal JOIN rung_rate AS f ON f.seal = b.seal AND f.concurrency = 1
WHERE b.probe = 'envelope' AND b.plain_twin
UNION ALL
SELECT seal, 'printed', upper(platform), 'as shipped', concurrency, value,
       relation_of('twin', 'envelope', concat_ws('/', platform, concurrency, quantity), 'value'), NULL
FROM published_decode_envelope WHERE quantity = 'wall_over_floor'
ORDER BY source, platform, setting, concurrency
