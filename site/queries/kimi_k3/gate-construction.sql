-- title: How the haystacks were built
-- column subject: {label = "target"}
-- column generator: {label = "generator", kind = "code"}
-- column seed: {label = "seed", kind = "code"}
-- column words_sha256: {label = "word lists", kind = "digest"}
-- column tokens_per_word: {label = "tokens a word", format = ".3f"}
-- column overhead_tokens: {label = "tokens around it", format = ".1f"}
SELECT seal, subject, generator, seed, words_sha256, tokens_per_word, overhead_tokens
FROM needle_gate_construction
ORDER BY subject, seal
