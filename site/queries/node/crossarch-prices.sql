-- title: Prices of a GPU-hour
-- column platform: {label = "GPU"}
-- column low: {label = "from", unit = "$"}
-- column high: {label = "to", unit = "$"}
SELECT seal, upper(platform) AS platform, vendor, kind, low_usd_per_gpu_hour_printed AS low, high_usd_per_gpu_hour_printed AS high, date, source
FROM published_prices_prices WHERE subject = 'gpu-prices' ORDER BY platform, low_usd_per_gpu_hour NULLS LAST, vendor, kind
