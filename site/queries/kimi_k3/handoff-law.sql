-- title: Bytes handed over by a real pair, beside the law
-- column prompt_tokens: {label = "prompt", unit = "tokens", format = "d"}
-- column state_pages: {label = "state pages"}
-- column blocks: {label = "blocks"}
-- column expected_bytes: {label = "by the law", unit = "bytes", format = "d"}
-- column bytes: {label = "counted", unit = "bytes", format = "d"}
-- column same: {label = "to the byte"}
-- column n_serves: {label = "serves"}
-- empty: no hand-off has been sealed
SELECT t.seal, t.subject AS pair, t.prompt_tokens, t.state_pages, t.blocks, t.expected_bytes, t.bytes, t.same, a.serves AS n_serves, relation_by(false, false, false) AS relation
FROM hand_off_law_transfers AS t JOIN artifacts AS a ON a.seal = t.seal
ORDER BY t.subject, t.prompt_tokens, t.seal
