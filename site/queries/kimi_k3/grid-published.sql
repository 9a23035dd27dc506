-- title: The capacity grid as printed
-- column context_tokens: {label = "context", unit = "tokens"}
-- column n_max: {label = "predicted", disputed = "disputed"}
-- column disputed: {hide = true}
SELECT seal, upper(platform) AS platform, context_tokens, n_max, highest_served_printed AS highest_served,
       lowest_failed_printed AS lowest_failed,
       contradicted(subject, concat('t2.k', CAST(context_tokens // 1000 AS BIGINT), '.n', regexp_extract(platform, '\d+'))) AS disputed
FROM published_capacity_grid
ORDER BY platform, context_tokens
