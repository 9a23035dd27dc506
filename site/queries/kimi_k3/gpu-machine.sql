-- title: The machine and the software that were measured
-- column engine: {label = "engine"}
-- column gpu: {label = "GPU"}
-- column torch: {label = "PyTorch", kind = "code"}
-- column triton: {label = "Triton", kind = "code"}
-- column driver: {label = "driver", kind = "code"}
-- column first_start: {label = "first engine began", kind = "code"}
-- column last_start: {label = "last engine began", kind = "code"}
-- column n_serves: {label = "engines started"}
-- empty: no engine on a GPU has been sealed
SELECT list(seal ORDER BY seal) AS seal, 'vLLM ' || any_value(json_extract_string(serve, '$.engine.version')) AS engine,
       any_value(json_extract_string(parameters, '$.launch.gpu')) AS gpu,
       any_value(json_extract_string(parameters, '$.launch.torch')) AS torch, any_value(json_extract_string(parameters, '$.launch.triton')) AS triton,
       any_value(json_extract_string(parameters, '$.launch.driver')) AS driver,
       strftime(to_timestamp(min(CAST(json_extract_string(serve, '$.started') AS DOUBLE))) AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M UTC') AS first_start,
       strftime(to_timestamp(max(CAST(json_extract_string(serve, '$.started') AS DOUBLE))) AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M UTC') AS last_start,
       count(*) AS n_serves
FROM artifacts WHERE name = 'engine-start' AND tier = 'measured' AND subject LIKE '%k3-rank-geometry@h200%'
GROUP BY json_extract_string(serve, '$.engine.version') ORDER BY engine
