-- title: Printed figures of the memory argument, recomputed
-- column item: {label = "figure"}
-- column label: {label = "printed beside"}
-- column printed_text: {label = "printed"}
-- column by_label: {label = "as labelled", format = ".6g"}
-- column other: {label = "another reading", format = ".6g"}
-- column place: {label = "printed where", hide = true}
-- empty: the check has not been derived
SELECT seal, topic, item, label, printed_text, by_label, other, unit, verdict, why, place, relation
FROM publication_check_verdicts
ORDER BY topic, item
