-- title: Recall time against context
-- column source: {label = "from"}
-- column seconds: {label = "whole request", unit = "s", format = ".1f"}
-- column n_requests: {hide = true}
-- empty: this probe has not run
-- The earlier report is another stack, so its points are no pair of the twin's.
SELECT r.seal, 'twin' AS source, upper(regexp_extract(r.subject, 'twin:([a-z0-9]+)', 1)) AS platform, r.context, r.e2e_s AS seconds,
       'as published' AS stack, count(*) OVER (PARTITION BY r.request_id, r.seal) AS n_requests
FROM niah_ladder_recall AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
WHERE r.part = 'ladder' AND r.outcome = 'hit' AND regexp_full_match(r.subject, 'twin:mi3[0-9]+x([?]max_num_seqs=[0-9]+)?')
UNION ALL
SELECT seal, 'earlier report', upper(platform), context_tokens, seconds, 'earlier', NULL
FROM earlier_report_recall_ladder WHERE seconds IS NOT NULL
ORDER BY source, platform, context
