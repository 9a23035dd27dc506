-- title: Serving knobs, as printed
-- column mi325x: {label = "MI325X"}
-- column mi300x: {label = "MI300X"}
-- column reason: {label = "why, in short", disputed = "disputed"}
-- column disputed: {hide = true}
-- A reason may quote a number that is printed otherwise elsewhere.
SELECT k.seal, k.knob, k.mi325x, k.mi300x, k.reason, contradicted(k.subject, (
  SELECT any_value(o.claim) FROM claims_audit_claims AS o
  WHERE o.subject = k.subject AND o.verdict = 'contradicted' AND contains(k.reason, split_part(o.printed, '/', 1) || ' '))) AS disputed
FROM published_configuration_knobs AS k ORDER BY k.position
