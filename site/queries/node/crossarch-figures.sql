-- title: Numbers of the document
-- column quantity: {label = "what"}
-- column model: {label = "of"}
-- column place: {label = "place", kind = "code"}
SELECT seal, quantity, model, value_printed AS printed, unit, place FROM published_figures_figures WHERE subject = 'mi325x-crossarch'
ORDER BY place, quantity, model
