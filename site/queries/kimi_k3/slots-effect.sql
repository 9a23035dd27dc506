-- title: The slot intervention, both sides measured alike
-- column low_target: {label = "fewer slots"}
-- column high_target: {label = "more slots"}
-- column concurrency: {label = "in flight"}
-- column low_max_num_seqs: {label = "MAX_NUM_SEQS, fewer", format = "d"}
-- column high_max_num_seqs: {label = "MAX_NUM_SEQS, more", format = "d"}
-- column low_rate: {label = "output rate, fewer", unit = "tokens/s", format = ".0f"}
-- column high_rate: {label = "output rate, more", unit = "tokens/s", format = ".0f"}
-- column low_gain: {label = "gain over the step before, fewer", format = ".1%"}
-- column high_gain: {label = "gain over the step before, more", format = ".1%"}
-- column low_knee: {label = "knee, fewer", format = "d"}
-- column high_knee: {label = "knee, more", format = "d"}
-- column n_requests: {hide = true}
-- column n_serves: {hide = true}
-- empty: the slot intervention has not been run on the twin
-- Both sides ran the same ladder; only the slot ceiling differs, and the derivation refuses anything else.
SELECT e.seal, e.low_target, e.high_target, e.concurrency, e.low_max_num_seqs, e.high_max_num_seqs, e.low_rate, e.high_rate,
       e.low_gain, e.high_gain, e.low_knee, e.high_knee, e.standing, 2 * e.concurrency AS n_requests, a.serves AS n_serves
FROM slots_effect_slots AS e JOIN artifacts AS a ON a.seal = e.seal AND a.verdict_ok AND a.basis = 'simulated'
ORDER BY e.low_target, e.seal, e.concurrency
