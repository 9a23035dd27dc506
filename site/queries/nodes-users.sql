-- title: Fewest nodes for a limit on the first token, by users and prompt
-- column platform: {label = "platform"}
-- column isl: {label = "prompt", unit = "tokens"}
-- column users: {label = "users"}
-- column nodes: {label = "nodes"}
-- column shape: {label = "prefill and decode nodes"}
-- column limit_s: {label = "limit", unit = "s", format = ".3g"}
-- column ttft_s_p95: {label = "first token, p95", unit = "s", format = ".3g", n = "requests"}
-- column tpot_ms_p95: {label = "per output token, p95", unit = "ms", format = ".3g", n = "requests"}
-- column requests: {label = "requests counted"}
-- empty: the grid has not been simulated
SELECT seal, upper(platform) AS platform, isl, users, nodes, shape, limit_s, ttft_s_p95, tpot_ms_p95, requests
FROM sizing_grid_steps ORDER BY sizing_grid_steps.platform, isl, users
