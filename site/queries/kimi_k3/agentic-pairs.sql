-- title: Agentic replays, printed beside the twin
-- column concurrency: {label = "users"}
-- column printed: {label = "printed", format = ".1f", seal = "printed_seal"}
-- column twin: {label = "twin", format = ".1f", seal = "twin_seal"}
-- column relative_difference: {label = "twin minus printed, relative", format = ".1%", difference = true}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: this probe has not run
-- Between tokens at a single lane is the slope of the wall law, which the twin was set to: same-law. The corpora are not
-- the same files, only the same declared profile.
WITH twin AS (
  SELECT r.seal, r.subject, r.corpus, r.concurrency, r.completed, u.quantity, u.number
  FROM agentic_replay AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok,
  LATERAL (VALUES ('first token p50', r.ttft_p50_s), ('between tokens p50', r.itl_p50_s * 1000),
           ('active rate', r.active_tokens_per_s)) AS u(quantity, number)
), printed AS (
  SELECT p.seal, p.platform, p.profile, p.concurrency, u.quantity, u.unit, u.number, u.printed_column
  FROM published_agentic_replays AS p,
  LATERAL (VALUES ('first token p50', 's', p.ttft_p50_s, 'ttft_p50_s'), ('between tokens p50', 'ms', p.itl_p50_ms, 'itl_p50_ms'),
           ('active rate', 'tokens/s', p.active_tokens_per_s, 'active_tokens_per_s')) AS u(quantity, unit, number, printed_column)
)
SELECT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS twin_seal, upper(p.platform) AS platform,
       p.profile AS corpus, p.concurrency, p.quantity, p.unit, p.number AS printed, t.number AS twin,
       CASE WHEN NOT circular_of('twin', 'replays', concat_ws('/', p.platform, p.profile, p.concurrency), p.printed_column) THEN t.number / p.number - 1 END
         AS relative_difference,
       t.completed AS n_requests, (SELECT serves FROM artifacts AS s WHERE s.seal = t.seal) AS n_serves,
       relation_of('twin', 'replays', concat_ws('/', p.platform, p.profile, p.concurrency), p.printed_column) AS relation
FROM printed AS p
JOIN twin AS t ON t.subject = 'twin:' || p.platform AND t.corpus = p.profile AND t.concurrency = p.concurrency
  AND t.quantity = p.quantity
ORDER BY p.profile, p.concurrency, p.platform, p.quantity
