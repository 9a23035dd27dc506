-- title: Saturation against active parameters
-- column ladder: {label = "comparable ladders"}
-- column gpus: {label = "GPUs"}
-- column active: {label = "active parameters", unit = "B", format = ".1f"}
-- column published: {label = "highest rate", unit = "tokens/s", format = ".0f"}
-- column published_per_gpu: {label = "a GPU", unit = "tokens/s/GPU", format = ".0f"}
-- column ceiling_per_gpu: {label = "compute ceiling", unit = "tokens/s/GPU", format = ".0f"}
-- column share: {label = "of the ceiling", format = ".0%"}
-- column rank_published: {label = "rank by rate"}
-- column rank_active: {label = "rank by fewest active"}
SELECT seal, "group" AS ladder, model, gpus, active_parameters / 1e9 AS active, published, published_per_gpu, ceiling_per_gpu, share,
  rank_published, rank_active
FROM roofline_saturation WHERE subject = 'mi325x-cookbook' ORDER BY ladder, rank_published, model
