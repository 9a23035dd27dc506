-- title: Order of a bring-up
-- column step: {label = "order"}
-- column role: {label = "process"}
-- column all2all: {label = "expert exchange", kind = "code"}
-- column graph: {label = "graph mode", kind = "code"}
-- column says: {hide = true}
-- column x: {hide = true}
-- column y: {hide = true}
-- column platform: {hide = true}
SELECT seal, step, replace(role, '_', ' ') AS role, pool, node, first_lane, last_lane, all2all, graph, says, x, y,
       subject AS platform
FROM bring_up_plan_steps ORDER BY subject, step
