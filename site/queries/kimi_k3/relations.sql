-- title: Printed cells by their relation to the twin
-- column source: {label = "transcription"}
-- column part: {label = "table"}
-- column key: {label = "row"}
-- column quantity: {label = "column"}
-- column follows: {label = "repeats, or follows from"}
-- column counts: {label = "evidence of its own"}
-- Worked out by k3repro.relation: what the calibration reads is observed while it runs.
SELECT seal, regexp_extract(source, '[^@]*') AS source, "table" AS part, key, "column" AS quantity, follows,
       CASE WHEN counts THEN 'yes' ELSE 'no' END AS counts, relation
FROM relation WHERE predictor = 'twin' ORDER BY source, part, key, quantity
