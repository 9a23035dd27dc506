-- title: Bytes that crossed from prefill to decode
-- column n_requests: {label = "requests"}
-- column transfers: {label = "transfers counted"}
-- column bytes: {label = "counted", unit = "bytes", format = "d"}
-- column expected_bytes: {label = "by shape", unit = "bytes", format = "d"}
-- column position: {hide = true}
-- column n_serves: {hide = true}
-- empty: no real pair has been measured yet
-- `by shape` is what the model's shapes and the number of whole blocks give; the engine counts by itself.
SELECT t.seal, coalesce(json_extract_string(a.serve, '$.models[0]'), json_extract_string(a.serve, '$.behind.decode.models[0]')) AS model, t.wave, t.requests AS n_requests, t.transfers,
       t.bytes, t.expected_bytes, t.failed, r.position, a.serves AS n_serves
FROM self_consistency_transfers AS t
JOIN artifacts AS a ON a.seal = t.seal AND a.tier = 'measured'
JOIN self_consistency_rungs AS r ON r.seal = t.seal AND r.rung = t.wave
ORDER BY model, t.seal, r.position
