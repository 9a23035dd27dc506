-- title: The kernels against the processor's result, bit for bit
-- column blocks: {label = "blocks compared"}
-- column words_that_differ: {label = "blocks whose codes differ"}
-- column mended: {label = "left to the processor"}
-- empty: nobody has measured the kernels on an accelerator
SELECT seal, rule, blocks, words_that_differ, scales_that_differ, mended
FROM int4_kernel_checks
ORDER BY seal, rule
