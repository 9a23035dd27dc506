-- title: Output rate against users
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column shape: {label = "input/output", kind = "code"}
-- column users: {label = "users"}
-- column n_requests: {label = "requests"}
-- column rate: {label = "output rate", unit = "tokens/s", format = ".0f"}
-- column ttft_p50_s: {label = "first token, p50", unit = "s", format = ".1f", about = "From sending a request to its first token, in the client's clock; the median over requests"}
-- column knee: {label = "knee", unit = "users"}
-- column n_serves: {hide = true}
-- empty: this probe has not run
SELECT p.seal, CASE WHEN starts_with(p.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, p.subject, p.shape, p.users, p.n_requests, p.output_tokens_per_s AS rate, p.ttft_p50_s,
       CAST(json_extract(a.verdict, '$.knees."' || p.shape || '"') AS BIGINT) AS knee,
       json_extract_string(a.verdict, '$.standing') AS standing, a.serves AS n_serves
FROM saturation_points AS p JOIN artifacts AS a ON a.seal = p.seal AND a.verdict_ok
WHERE NOT contains(p.subject, '-1n/')
ORDER BY p.subject, p.shape, p.users, p.seal
