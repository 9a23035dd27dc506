-- title: Saturation of a node
-- column subject: {hide = true}
-- column shape: {label = "input/output", kind = "code"}
-- column users: {label = "users"}
-- column rate: {label = "output rate", unit = "tokens/s", format = ".0f"}
-- column ttft_p50_s: {label = "first token, p50", unit = "s", format = ".2f", n = "n_requests", about = "From sending a request to its first token, in the client's clock; the median over requests"}
-- column n_requests: {label = "requests"}
-- column answered: {label = "answered with success", format = ".1%"}
-- column whole: {label = "whole", format = ".1%"}
-- column failure_bound: {label = "failures not ruled out below", format = ".2%"}
-- column standing: {hide = true}
-- empty: this probe has not run
SELECT p.seal, split_part(p.subject, '/', 2) AS model, p.subject, p.shape, p.users, p.output_tokens_per_s AS rate, p.ttft_p50_s, p.n_requests,
  p.n_http_ok / p.n_sent AS answered, p.n_valid / p.n_sent AS whole, p.failure_bound,
  json_extract_string(a.verdict, '$.standing') AS standing
FROM saturation_points AS p JOIN artifacts AS a ON a.seal = p.seal AND a.verdict_ok
WHERE contains(p.subject, '-1n/') ORDER BY p.subject, p.shape, p.users, p.seal
