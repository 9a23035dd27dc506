-- title: Agentic replays
-- column source: {hide = true}
-- column subject: {label = "target"}
-- column concurrency: {label = "users"}
-- column window_s: {label = "window", unit = "s", format = ".0f"}
-- column completed: {label = "turns completed"}
-- column cut: {label = "cut at the end"}
-- column errors: {label = "errors"}
-- column clones: {label = "sessions repeated"}
-- column input_high: {label = "largest input", unit = "tokens", format = ".0f"}
-- column ttft_p50_s: {label = "first token, p50", unit = "s", format = ".2f", n = "completed", about = "From sending a request to its first token, in the client's clock; the median over requests"}
-- column itl_p50_ms: {label = "between tokens, p50", unit = "ms", format = ".1f", n = "completed", about = "Time from the first event to the end divided by the tokens that came after that event; the median over requests"}
-- column active_rate: {label = "active rate", unit = "tokens/s", format = ".0f", about = "Input and output tokens divided by the time in which a request was in flight: idle gaps do not count"}
-- column wall_rate: {label = "wall rate", unit = "tokens/s", format = ".0f", about = "Input and output tokens divided by the whole window, idle gaps included"}
-- column cache_possible: {label = "reusable input", format = ".0%"}
-- column pre_gate: {label = "pre-gate"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: this probe has not run
SELECT r.seal, CASE WHEN starts_with(r.subject, 'twin:') THEN 'twin' ELSE 'engine' END AS source, r.subject, r.harness, r.corpus, r.concurrency, r.window_s, r.completed, r.cut, r.errors, r.clones,
       r.input_high, r.ttft_p50_s, r.itl_p50_s * 1000 AS itl_p50_ms, r.active_tokens_per_s AS active_rate,
       r.wall_tokens_per_s AS wall_rate, r.cache_possible,
       json_extract_string(a.verdict, '$.pre_gate') AS pre_gate, r.completed AS n_requests, a.serves AS n_serves
FROM agentic_replay AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
ORDER BY r.corpus, r.concurrency, r.subject, r.seal
