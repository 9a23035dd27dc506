-- title: The publication's own workloads: as published, and what it takes to give everybody a first token in time
-- column case: {label = "workload"}
-- column platform: {label = "platform"}
-- column users: {label = "users"}
-- column isl: {label = "prompt", unit = "tokens"}
-- column osl: {label = "reply", unit = "tokens"}
-- column printed_quantity: {label = "quantity printed", more = true}
-- column printed: {label = "printed, 2P2D", format = ".3g"}
-- column simulated: {label = "simulated, 2P2D", format = ".3g"}
-- column unit: {label = "unit"}
-- column nodes: {label = "nodes to keep the limit"}
-- column ttft_s_p95: {label = "first token, p95", unit = "s", format = ".3g", n = "requests"}
-- column shape: {label = "prefill and decode nodes", more = true}
-- column tpot_ms_p95: {label = "per output token, p95", unit = "ms", format = ".3g", n = "requests", more = true}
-- column ttft: {label = "limit on the first token"}
-- column requests: {label = "requests counted", more = true}
-- column verdict: {label = "answer"}
-- column surer: {label = "with more nodes"}
-- column surer_nodes: {label = "nodes for that"}
-- column why: {label = "why", more = true}
-- column command: {label = "the same from a shell", kind = "code", more = true}
-- empty: the cases have not been simulated
SELECT seal, "case", upper(platform) AS platform, users, isl, osl, printed_quantity, printed, simulated, printed_unit AS unit, nodes, ttft, ttft_s_p95,
  shape, tpot_ms_p95, requests, verdict, surer,
  surer_nodes, why, command
FROM sizing_cases_cases WHERE ttft <> '' ORDER BY position, sizing_cases_cases.platform
