-- title: Forms for first-token time, judged by leaving out
-- column mean_error: {label = "left-out miss, mean", format = ".1%"}
-- column worst_error: {label = "worst cell misses by", format = ".1%"}
-- column worst_context_tokens: {label = "worst at", unit = "tokens"}
-- column worst_concurrency: {label = "in flight"}
-- column reason: {label = "why there is none"}
-- empty: the forms have not been fitted
SELECT seal, series, upper(platform) AS platform, form, n AS cells, mean_error, worst_error, worst_context_tokens,
       worst_concurrency, reason
FROM prefill_laws_fits
ORDER BY series, platform, mean_error NULLS LAST, form
