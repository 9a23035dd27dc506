-- title: Agentic replay on this serve
-- column n_requests: {label = "turns completed"}
-- column errors: {label = "errors"}
-- column cut: {label = "cut by the end"}
-- empty: no replay was run
SELECT seal, completed AS n_requests, errors, cut FROM agentic_replay ORDER BY seal
