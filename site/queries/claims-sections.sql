-- title: Sections of every document, with their claims by verdict
-- column document: {label = "document", kind = "code"}
-- column section: {label = "section", kind = "code", link = "href"}
-- column title: {label = "about", link = "href"}
-- column href: {hide = true}
-- column position: {hide = true}
SELECT c.seal, c.subject AS document, c.section,
  coalesce(n.title, upper(c.section[1]) || replace(c.section[2:], '-', ' ')) AS title,
  'claims/' || c.subject || '/' || c.section || '.html' AS href, min(c.position) AS position,
  count(*) AS claims,
  count(*) FILTER (verdict = 'supported') AS supported,
  count(*) FILTER (verdict = 'repeats') AS repeats,
  count(*) FILTER (verdict = 'contradicted') AS contradicted,
  count(*) FILTER (verdict = 'undecidable') AS undecidable,
  count(*) FILTER (verdict = 'unbacked') AS unbacked
FROM claims_audit_claims c LEFT JOIN (VALUES
  -- our words where a section's own slug would put a number into a heading, or is cut off
  ('di-series-serving-kimi', 'Opening'), ('why-disaggregate-and-why', 'Why disaggregate'),
  ('the-model-a-kda', 'The model'), ('%-engineering-challenges', 'The engineering challenges'),
  ('challenge-_-the-model', 'Does the model fit'), ('challenge-_-mxfp_-does', 'Weights without native support'),
  ('challenge-_-concurrency-correctness', 'Correctness under concurrency'),
  ('accuracy-first-does-the', 'Accuracy first'), ('a-decode-side-capacity', 'Decode-side capacity'),
  ('latency-ttft-and-tpot', 'Latency'), ('long-context-how-far', 'Long context'),
  ('agentic-evaluation-with-agentx', 'Agentic evaluation'), ('an-operational-note-on', 'An operational note'),
  ('facts-from-the-same', 'Facts of the earlier report'),
  ('output-length-sweep-concurrency', 'Output-length sweep'), ('recall-ladder-depth-_', 'Recall ladder'),
  ('agentic-itl-against-the', 'Agentic inter-token latency'), ('start-up-refusals-on', 'Start-up refusals'),
  ('needle-gate-before-and', 'Needle gate'), ('kv-pool-then', 'Cache pool'),
  ('amd-runs-kimi-k_', 'Opening'), ('mxfp_-without-native-support', 'Weights without native support'),
  ('why-disaggregation-and-wide', 'Why disaggregation')
) AS n(section, title) ON c.section LIKE n.section
WHERE c.page <> ''
GROUP BY c.seal, c.subject, c.section, n.title
ORDER BY document, position
