-- title: Series nobody published
-- column place: {label = "shown where"}
-- column instead: {label = "what is printed of it"}
-- column state: {label = "here"}
SELECT seal, series, place, instead, 'not published' AS state
FROM published_agentic_not_published
ORDER BY place, series
