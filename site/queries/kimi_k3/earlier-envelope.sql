-- title: The envelope of the earlier report, as printed
-- column concurrency: {label = "in flight"}
-- column requests: {label = "of"}
-- column wall_s_printed: {label = "wall, s"}
-- column out_tokens_per_s: {label = "output rate", unit = "tokens/s", format = ".1f"}
SELECT seal, upper(platform) AS platform, concurrency, completed, requests, wall_s_printed, out_tokens_per_s
FROM earlier_report_envelope
ORDER BY platform DESC, concurrency
