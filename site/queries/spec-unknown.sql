-- title: Fields that no source gives
-- column subject: {label = "spec"}
-- column source: {label = "what is done about it"}
-- empty: no spec has been sealed
SELECT seal, subject, replace(field, '_', ' ') AS field, source
FROM spec_fields WHERE section = 'unknown'
ORDER BY subject, field
