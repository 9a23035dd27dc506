-- title: Every setting, its reason and who says so
-- column section: {label = "section", kind = "code"}
-- column name: {label = "setting", kind = "code"}
-- column value: {label = "value", kind = "code"}
-- column recipe: {hide = true}
SELECT seal, section, name, value, why, source, subject AS recipe
FROM bring_up_plan_knobs ORDER BY subject, section, name
