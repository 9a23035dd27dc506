-- title: Phases of every request of one wave
-- column subject: {label = "platform"}
-- column start_s: {label = "from", unit = "s", format = ".3f"}
-- column end_s: {label = "to", unit = "s", format = ".3f"}
-- column tokens: {label = "tokens", format = "d"}
-- empty: no wave has been drawn
SELECT seal, subject, request, lane, phase, start_ns / 1e9 AS start_s, end_ns / 1e9 AS end_s, tokens
FROM twin_journey_phases ORDER BY subject, request, position
