-- title: What one short request hands from prefill to decode
-- column what: {label = "what"}
-- column source: {label = "source", hide = true}
-- column holds: {hide = true}
-- column disputed: {hide = true}
-- column number: {label = "bytes", unit = "MB", format = ".1f", disputed = "disputed"}
-- empty: nothing has been predicted
WITH printed AS (
  SELECT seal, value * 1048576 / 1e6 AS mb, contradicted(subject, 'kv.request') AS claim
  FROM published_contents_points WHERE quantity LIKE 'cache of a request%'
), law AS (
  SELECT h.seal, h.bytes / 1e6 AS mb FROM launch_predictions_handoffs AS h
  JOIN launch_predictions_startups AS s ON s.seal = h.seal AND s.launch = h.launch
  WHERE NOT s.prefix_caching AND s.tp = 2 AND s.kv_dtype = 'fp8'
  QUALIFY row_number() OVER (ORDER BY h.prompt_tokens) = 1
)
SELECT u.seal, u.what, u.source, u.number, l.mb > p.mb AS holds, CASE WHEN u.source = 'printed' THEN p.claim END AS disputed
FROM printed AS p, law AS l, LATERAL (VALUES
  (p.seal, 'printed, whole request', 'printed', p.mb), (l.seal, 'one rank, with its state', 'derived', l.mb)) AS u(seal, what, source, number)
ORDER BY number
