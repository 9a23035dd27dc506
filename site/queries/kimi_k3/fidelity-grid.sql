-- title: Table 2 against the timeout of a wave
-- column context_tokens: {label = "context", unit = "tokens", format = "d"}
-- column concurrency: {label = "in flight"}
-- column admitted: {label = "blocks and slots admit"}
-- column resident: {label = "resident at once"}
-- column within_half_hour: {label = "done within the time limit"}
-- column all_done_s: {label = "least timeout on the grid that all meet", unit = "s", format = "d"}
-- empty: the fidelity table has not run
SELECT seal, upper(platform) AS platform, context_tokens, concurrency, any_value(printed) AS printed,
       any_value(admitted) AS admitted, any_value(resident) AS resident,
       max(completed) FILTER (WHERE timeout_s = 1800) AS within_half_hour,
       min(timeout_s) FILTER (WHERE served) AS all_done_s, coalesce(relation_of('twin', 'grid', concat_ws('/', platform, context_tokens), 'highest_served'),
         relation_of('twin', 'grid', concat_ws('/', platform, context_tokens), 'lowest_failed')) AS relation
FROM twin_fidelity_grid GROUP BY seal, platform, context_tokens, concurrency
ORDER BY platform DESC, context_tokens, concurrency
