-- title: Bytes of the checkpoint by component
-- column subject: {hide = true}
-- column bytes: {label = "bytes"}
-- column gib: {label = "size", unit = "GiB", format = ".2f"}
-- column share: {label = "share", format = ".2%"}
-- empty: the budget has not been derived
SELECT seal, subject, replace(component, '_', ' ') AS component, tensors, bytes,
       bytes / 1073741824.0 AS gib, bytes / (sum(bytes) OVER (PARTITION BY seal))::DOUBLE AS share, parameters
FROM memory_budget_components WHERE tensors > 0
ORDER BY subject, bytes DESC, component
