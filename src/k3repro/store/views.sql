-- Views of the catalog over every probe that sends waves; the braces are unions of their tables.
-- Quantile q stands only on a sample with n(1-q) >= 5, else it is NULL. Sums are of integers: the order of rows moves no digit.

-- Every rung and every request of every probe. First token: from sending a request to it, in the client's clock.
CREATE OR REPLACE VIEW all_rungs AS {rungs};
CREATE OR REPLACE VIEW all_requests AS
SELECT *, (first_token_ns - sent_ns) / 1e9 AS ttft_s, (done_ns - sent_ns) / 1e9 AS e2e_s FROM ({requests});

-- The run that stands for a probe on a target: verdict ok, and of several the one with the most completed requests.
CREATE OR REPLACE VIEW best_run AS
SELECT r.probe, r.seal, r.subject, upper(regexp_extract(r.subject, 'twin:([a-z0-9]+)', 1)) AS platform,
       coalesce('raised to ' || nullif(regexp_extract(r.subject, 'max_num_seqs=([0-9]+)', 1), ''), 'as shipped') AS setting,
       regexp_full_match(r.subject, 'twin:[a-z0-9]+([?]max_num_seqs=[0-9]+)?') AS plain_twin,  -- nothing set but slots
       any_value(a.serves) AS n_serves
FROM all_rungs AS r JOIN artifacts AS a ON a.seal = r.seal AND a.verdict_ok
WHERE r.measured AND r.valid GROUP BY r.probe, r.seal, r.subject
QUALIFY row_number() OVER (PARTITION BY r.probe, r.subject ORDER BY sum(r.completed) DESC, r.seal) = 1;

-- Rates at each number in flight and request shape: tokens of all valid waves over the time of all of them.
CREATE OR REPLACE VIEW rung_rate AS
SELECT probe, seal, subject, tier, concurrency, isl, osl, CAST(sum(completed) AS BIGINT) AS n_requests,
       sum(CAST(round(wall_s * 1e9) AS BIGINT)) / 1e9 / count(*) AS wall_s,
       sum(completion_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS out_tokens_per_s,
       sum(completion_tokens + prompt_tokens) * 1e9 / sum(CAST(round(wall_s * 1e9) AS BIGINT)) AS total_tokens_per_s,
       min(in_flight_plateau) AS in_flight_plateau, count(DISTINCT run_id) AS n_runs
FROM all_rungs WHERE measured AND valid GROUP BY probe, seal, subject, tier, concurrency, isl, osl;

-- Rungs whose client was too late, by the p99 of its timers, for their first tokens: the rule of k3repro.probes.lateness.
CREATE OR REPLACE VIEW late_rungs AS
SELECT g.probe, g.seal, g.rung FROM all_rungs AS g JOIN all_requests AS r ON r.probe = g.probe AND r.seal = g.seal AND r.wave = g.rung
WHERE g.measured AND r.outcome = 'completed' GROUP BY g.probe, g.seal, g.rung
HAVING max(g.client_lag_s) > greatest(0.001, 0.05 * quantile_cont(r.ttft_s, 0.5));

-- First-token time (NULL where the client was too late for it) and TPOT (pooled) at the same places.
CREATE OR REPLACE VIEW rung_latency AS
SELECT g.probe, r.seal, r.subject, g.concurrency, g.isl, g.osl, count(*) AS n_requests,
       CASE WHEN count(*) >= 10 AND count(l.rung) = 0 THEN quantile_cont(r.ttft_s, 0.5) END AS ttft_p50_s,
       CASE WHEN count(*) >= 50 AND count(l.rung) = 0 THEN quantile_cont(r.ttft_s, 0.9) END AS ttft_p90_s,
       CASE WHEN count(*) >= 500 AND count(l.rung) = 0 THEN quantile_cont(r.ttft_s, 0.99) END AS ttft_p99_s,
       sum(done_ns - first_token_ns) / 1e6 / nullif(sum(r.completion_tokens - 1), 0) AS tpot_ms
FROM all_requests AS r JOIN all_rungs AS g ON g.probe = r.probe AND g.seal = r.seal AND g.rung = r.wave
LEFT JOIN late_rungs AS l ON l.probe = g.probe AND l.seal = g.seal AND l.rung = g.rung
WHERE g.measured AND g.valid GROUP BY g.probe, r.seal, r.subject, g.concurrency, g.isl, g.osl;

-- The relation of a printed cell to what predicts it, as the artifact `relation` has it (k3repro.relation); and the same
-- from facts: fitted to numbers of that kind at all, to this one, by one law with it.
CREATE OR REPLACE MACRO relation_of(predicted_by, part, cell, quantity) AS (
  SELECT any_value(r.relation) FROM {relations} AS r
  WHERE r.predictor = predicted_by AND r."table" = part AND r.key = cell AND r."column" = quantity
);
CREATE OR REPLACE MACRO circular_of(predicted_by, part, cell, quantity) AS (
  SELECT any_value(r.circular) FROM {relations} AS r
  WHERE r.predictor = predicted_by AND r."table" = part AND r.key = cell AND r."column" = quantity
);
CREATE OR REPLACE MACRO relation_by(fitted, used, one_law) AS
  CASE WHEN used THEN 'in-sample' WHEN one_law THEN 'same-law' WHEN fitted THEN 'held-out' ELSE 'independent' END;

-- Where an artifact comes from: itself, its inputs, theirs.
CREATE OR REPLACE VIEW ancestry AS
WITH RECURSIVE up(seal, ancestor) AS (
  SELECT seal, seal FROM artifacts UNION SELECT u.seal, unnest(a.inputs) FROM up AS u JOIN artifacts AS a ON a.seal = u.ancestor
)
SELECT u.seal, u.ancestor, a.tier AS origin FROM up AS u JOIN artifacts AS a ON a.seal = u.ancestor WHERE a.tier IN ('published', 'measured');

-- The relation of a number to a prediction, from what each comes from: in-sample where both come from one print or measurement,
-- held-out where the prediction comes from others of that kind, independent where it comes from none.
CREATE OR REPLACE MACRO relation_between(predicted, observed) AS relation_by(
  EXISTS (SELECT 1 FROM ancestry AS its_own JOIN ancestry AS the_other ON the_other.origin = its_own.origin
          WHERE its_own.seal = predicted AND the_other.seal = observed),
  EXISTS (SELECT 1 FROM ancestry AS its_own JOIN ancestry AS the_other ON the_other.ancestor = its_own.ancestor
          WHERE its_own.seal = predicted AND the_other.seal = observed),
  false
);

-- Where in the site the audit says that a printed number cannot be true beside the document's others; NULL where it says no such
-- thing. `document` is the subject of the transcription, `id` the claim's.
CREATE OR REPLACE MACRO contradicted(document, id) AS (
  SELECT any_value('claims/' || c.subject || '/' || c.section || '.html#' || c.page) FROM {claims} AS c
  WHERE c.subject = document AND c.claim = id AND c.verdict = 'contradicted' AND c.page <> ''
);
