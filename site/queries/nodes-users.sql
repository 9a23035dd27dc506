-- title: Fewest nodes for a first token within a minute, by users and prompt
-- column platform: {label = "platform"}
-- column isl: {label = "prompt", unit = "tokens"}
-- column users: {label = "users"}
-- column nodes: {label = "nodes"}
-- column shape: {label = "prefill and decode nodes"}
-- column ttft_s_p95: {label = "first token, p95", unit = "s", format = ".3g"}
-- column tpot_ms_p95: {label = "per output token, p95", unit = "ms", format = ".3g"}
-- empty: the grid has not been simulated
SELECT seal, upper(platform) AS platform, isl, users, nodes,
       2 * prefill_pools || 'P' || 2 * decode_pools || 'D' AS shape, ttft_s_p95, tpot_ms_p95
FROM sizing_grid_rows WHERE osl = (SELECT min(osl) FROM sizing_grid_rows) AND ttft_s_p95 <= 60
QUALIFY row_number() OVER (PARTITION BY platform, isl, users ORDER BY nodes, tokens_per_s DESC, max_num_seqs, prefill_pools) = 1
ORDER BY sizing_grid_rows.platform, isl, users
