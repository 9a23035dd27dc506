-- title: Tables and figures of the publication
-- column element: {label = "in the publication", link = "page"}
-- column printed: {label = "printed as text"}
-- column place: {label = "printed where"}
-- column kind: {hide = true}
-- column key: {hide = true}
-- column page: {hide = true}
-- column position: {hide = true}
SELECT seal, element, shows, printed, place, kind, key, position,
       CASE kind WHEN 'table' THEN 'tables/' || lower(replace(element, ' ', '-')) || '.html'
                 WHEN 'figure' THEN 'figures/' || lower(replace(element, ' ', '-')) || '.html'
                 ELSE CASE key WHEN 'worked-example' THEN 'tables/worked-example.html'
                               ELSE 'tables/configuration.html#' || key END END AS page
FROM published_contents_elements
ORDER BY position
