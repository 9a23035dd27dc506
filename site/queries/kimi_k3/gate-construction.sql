-- title: How the haystacks were built
-- column subject: {label = "target"}
-- column generator: {label = "generator", kind = "code"}
-- column seed: {label = "seed", kind = "code"}
-- column words_sha256: {label = "word lists", kind = "digest"}
-- column tokens_per_word: {label = "tokens a word", format = ".3f"}
-- column overhead_tokens: {label = "tokens around it", format = ".1f"}
-- Small models on CPU cores have a page of their own, as in `gates`.
SELECT c.seal, c.subject, c.generator, c.seed, c.words_sha256, c.tokens_per_word, c.overhead_tokens
FROM needle_gate_construction AS c JOIN artifacts AS a ON a.seal = c.seal
WHERE NOT (a.tier = 'measured' AND starts_with(coalesce(json_extract_string(a.serve, '$.models[0]'), ''), 'tiny-'))
ORDER BY c.subject, c.seed, c.seal
