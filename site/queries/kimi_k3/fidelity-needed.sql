-- title: What would have to be true
-- column cost: {label = "cost that the twin does without"}
-- column value: {label = "value it would need", format = ".3g"}
-- column low: {label = "at the lower end of the rounding", format = ".3g"}
-- column high: {label = "at the upper end", format = ".3g"}
-- column times: {label = "of what the hardware would take at its peak", format = ".3g"}
-- column argument: {label = "what it stands for"}
-- empty: the fidelity table has not run
SELECT seal, upper(platform) AS platform,
       CASE constant WHEN 'step_longest_ps' THEN 'a decode step, per token of its longest sequence'
                     ELSE 'prefill, per pair of tokens' END AS cost,
       value / 1e6 AS value, low / 1e6 AS low, high / 1e6 AS high,
       CASE constant WHEN 'step_longest_ps' THEN 'µs' ELSE 'ns' END AS unit,
       solved_on, times, argument
FROM twin_fidelity_needed ORDER BY constant DESC, platform DESC
