-- title: Which spread over GPUs holds the model
-- column tp: {label = "tensor parallel"}
-- column outcome: {label = "outcome", kind = "badge"}
-- column what: {label = "what happens"}
-- column weights: {label = "weights a GPU", unit = "GB", format = ".1f"}
-- column room: {label = "room for cache", unit = "GB", format = ".1f"}
-- column kv: {label = "cache a token and GPU", unit = "kB", format = ".1f"}
-- column kv_tokens: {label = "tokens the room holds"}
-- column kv_copies: {label = "copies of a token", unit = "x", format = ".0f"}
SELECT seal, model, tp, outcome, nullif(what, '') AS what, weight_bytes_per_gpu / 1e9 AS weights, kv_room_bytes / 1e9 AS room,
  kv_bytes_per_token / 1e3 AS kv, kv_tokens, kv_copies
FROM decision_checklist_fits WHERE subject = 'mi325x-cookbook' ORDER BY model, tp
