-- title: Converting on an accelerator, beside a plain copy
-- column source: {label = "weights"}
-- column gb_per_s: {label = "read plus written", unit = "GB/s", format = ".0f"}
-- column of_copy: {label = "of the copy", format = ".1%"}
-- column input_gb_per_s: {label = "MXFP4 read", unit = "GB/s", format = ".0f"}
-- column n_runs: {hide = true}
-- empty: nobody has measured the kernels on an accelerator
SELECT seal, what, rule, source, max(gb_per_s) AS gb_per_s, max(of_copy) AS of_copy,
       max(input_gb_per_s) AS input_gb_per_s, count(DISTINCT run_id) AS n_runs
FROM int4_kernel_timings GROUP BY seal, what, rule, source
ORDER BY seal, gb_per_s DESC, source
