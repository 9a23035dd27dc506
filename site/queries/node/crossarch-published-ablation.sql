-- title: The published ablation
-- column concurrency: {label = "concurrency"}
-- column off: {label = "off", unit = "tokens/s"}
-- column switched: {label = "on", unit = "tokens/s"}
-- column difference: {label = "difference, as printed", difference = false}
SELECT seal, concurrency, off_tokens_per_s_printed AS off, on_tokens_per_s_printed AS switched, difference_percent_printed AS difference
FROM published_levels_ablation WHERE subject = 'mi325x-cookbook' ORDER BY concurrency
