-- title: Slots per platform, printed and as the specs say
-- column max_num_seqs: {label = "MAX_NUM_SEQS"}
-- column published: {label = "published slots", seal = "printed_seal"}
-- column predicted: {label = "predicted slots", seal = "our_seal"}
-- column observed: {label = "observed, as printed", seal = "printed_seal"}
-- empty: the laws have not been derived
SELECT DISTINCT [p.seal, t.seal] AS seal, p.seal AS printed_seal, t.seal AS our_seal, upper(p.platform) AS platform, p.max_num_seqs,
       p.lanes, p.slots AS published, t.slots AS predicted, p.observed, relation_of('formula', 'slots', p.platform, 'slots') AS relation
FROM published_recipe_slots AS p
JOIN capacity_law_terms AS t ON t.platform = p.platform AND NOT t.prefix_caching
ORDER BY platform DESC
