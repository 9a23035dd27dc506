-- title: Layouts as printed
-- column replicated_gib: {label = "replicated part", unit = "GiB", format = ".1f", disputed = "disputed"}
-- column disputed: {hide = true}
-- column weights_gib: {label = "weights", unit = "GiB", format = ".1f"}
-- column with_overhead_gib: {label = "with heap and overhead", unit = "GiB", format = ".1f"}
-- column headroom: {label = "KV headroom"}
SELECT seal, layout, replicated_gib, weights_gib, with_overhead_gib, headroom_gib_printed AS headroom, verdict,
       contradicted(subject, concat('t1.tp', tp, '.repl')) AS disputed
FROM published_capacity_layouts
ORDER BY tp
