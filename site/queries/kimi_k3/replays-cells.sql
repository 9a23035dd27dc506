-- title: Every replay, published, predicted and simulated
-- column concurrency: {label = "users"}
-- column published: {label = "published", format = ".4g", seal = "printed_seal"}
-- column predicted: {label = "predicted, slope k", format = ".0f", seal = "law_seal"}
-- column run: {label = "twin", format = ".4g", seal = "twin_seal"}
-- column difference: {label = "twin over published, less one", format = ".0%", difference = true}
-- column n_printed: {label = "turns printed"}
-- empty: the fidelity table has not run
-- The twin replays a corpus of the printed shape, not the printed files; the recorded corpus prints no shape.
SELECT [r.seal, f.seal, w.seal] AS seal, r.seal AS printed_seal, f.seal AS twin_seal, w.seal AS law_seal,
       upper(r.platform) AS platform, r.profile, r.concurrency,
       CASE f.quantity WHEN 'ttft_p50_s' THEN 'TTFT' WHEN 'itl_p50_ms' THEN 'ITL' ELSE 'active rate' END AS quantity, f.unit,
       f.printed AS published, CASE f.quantity WHEN 'itl_p50_ms' THEN w.k_ms_per_token END AS predicted, f.simulated AS run,
       CASE WHEN NOT circular_of('twin', 'replays', concat_ws('/', r.platform, r.profile, r.concurrency), f.quantity) THEN f.error END AS difference, r.requests AS n_printed,
       relation_of('twin', 'replays', concat_ws('/', r.platform, r.profile, r.concurrency), f.quantity) AS relation
FROM published_agentic_replays AS r
JOIN twin_fidelity_cells AS f
  ON f.platform = r.platform AND f.cell = r.profile || ', con ' || CAST(r.concurrency AS VARCHAR) AND f.quantity IN ('ttft_p50_s', 'itl_p50_ms', 'active_tokens_per_s')
JOIN published_decode_wall_law AS w ON w.platform = r.platform
ORDER BY r.input_p99, platform DESC, r.concurrency, quantity DESC
