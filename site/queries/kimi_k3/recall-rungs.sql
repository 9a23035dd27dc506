-- title: The recall ladder of the twin, needle by needle
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column depth: {label = "depth", format = ".1f"}
-- column prompt_tokens: {label = "prompt counted", unit = "tokens"}
-- column ended: {label = "reply ended"}
-- column ttft_s: {label = "first token", unit = "s", format = ".1f", about = "From sending the request to its first token, in the client's clock"}
-- column e2e_s: {label = "whole request", unit = "s", format = ".1f"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: this probe has not run
SELECT r.seal, CASE WHEN starts_with(r.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, r.subject, r.part, r.context, r.depth, r.prompt_tokens, r.outcome,
       CASE WHEN r.natural_stop THEN 'by itself' ELSE 'at the cap' END AS ended, r.ttft_s, r.e2e_s,
       count(*) OVER (PARTITION BY r.seal, r.request_id) AS n_requests, a.serves AS n_serves
FROM niah_ladder_recall AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
ORDER BY r.subject, r.part, r.context, r.depth, r.request_id, r.seal
