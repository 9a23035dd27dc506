-- title: The capacity grid as printed
-- column context_tokens: {label = "context", unit = "tokens"}
-- column n_max: {label = "predicted"}
SELECT seal, upper(platform) AS platform, context_tokens, n_max, highest_served_printed AS highest_served,
       lowest_failed_printed AS lowest_failed
FROM published_capacity_grid
ORDER BY platform, context_tokens
