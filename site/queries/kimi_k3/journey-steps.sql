-- title: The path of one request
-- column caption: {label = "what happens"}
-- column start_s: {label = "from", unit = "s", format = ".3f"}
-- column end_s: {label = "to", unit = "s", format = ".3f"}
-- column lasts_s: {label = "lasts", unit = "s", format = ".3f"}
-- column tokens: {label = "tokens", format = "d"}
-- column beside: {label = "requests beside it in that phase"}
-- column position: {hide = true}
-- column took: {hide = true}
-- empty: no wave has been drawn
-- The last request of the drawn wave, phase by phase.
WITH chosen AS (SELECT seal, max(request) AS request FROM twin_journey_phases GROUP BY seal)
SELECT p.seal,
       CASE p.phase WHEN 'transfer' THEN 'Transfer' WHEN 'decode' THEN 'Decode' ELSE 'Prefill' END AS act,
       CASE p.phase WHEN 'queue' THEN 'router' WHEN 'prefill' THEN 'prefill pool' WHEN 'hold' THEN 'prefill pool, waiting'
                    WHEN 'transfer' THEN 'wire' ELSE 'decode pool' END AS stage,
       CASE p.phase
         WHEN 'queue' THEN 'The router hands the request to a DP rank of the prefill pool, where it waits for the next step.'
         WHEN 'prefill' THEN 'The rank computes its prompt together with its neighbours. In every layer the tokens go to the GPUs that hold their experts, and back.'
         WHEN 'hold' THEN 'Its cache is complete, but the step goes on for other requests, and this one waits for the end.'
         WHEN 'transfer' THEN 'The latent cache and the recurrent state are written into the memory of a decode rank. Then the prefill rank is free.'
         ELSE 'Each step appends a token to every sequence of the rank, until the reply is complete.' END AS caption,
       p.start_ns / 1e9 AS start_s, p.end_ns / 1e9 AS end_s, (p.end_ns - p.start_ns) / 1e9 AS lasts_s, p.tokens,
       (SELECT count(*) FROM twin_journey_phases AS o
        WHERE o.seal = p.seal AND o.phase = p.phase AND o.request <> p.request AND o.start_ns < p.end_ns AND o.end_ns > p.start_ns) AS beside,
       p.position, concat(CAST((p.end_ns - p.start_ns) / 1e9 AS DECIMAL(12, 3)), ' s') AS took
FROM twin_journey_phases AS p JOIN chosen AS c ON c.seal = p.seal AND c.request = p.request
ORDER BY p.position
