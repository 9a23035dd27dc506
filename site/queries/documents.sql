-- title: Documents that were transcribed
-- column sha256: {label = "digest of the text", kind = "digest"}
-- column artifacts: {label = "transcriptions"}
SELECT list_sort(list(seal)) AS seal, json_extract_string(citation, '$.document') AS document, json_extract_string(citation, '$.date') AS date,
       json_extract_string(citation, '$.sha256') AS sha256, count(*) AS artifacts
FROM artifacts
WHERE tier = 'published' AND json_extract_string(citation, '$.sha256') IS NOT NULL AND name <> 'skeleton'
GROUP BY ALL
ORDER BY date DESC, document
