-- title: Replay corpora, as printed
-- column cache_reuse: {label = "cache reuse"}
SELECT seal, profile, sessions, turns, input_p50_printed AS input_p50, input_p99_printed AS input_p99,
       output_p50_printed AS output_p50, output_p99_printed AS output_p99, cache_reuse_printed AS cache_reuse,
       CASE platforms WHEN 'both' THEN 'both' ELSE upper(platforms) END AS platforms
FROM published_agentic_corpora
ORDER BY sessions, turns, profile
