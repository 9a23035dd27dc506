-- title: The path of one request
-- column caption: {label = "what happens"}
-- column start_s: {label = "from", unit = "s", format = ".3f"}
-- column end_s: {label = "to", unit = "s", format = ".3f"}
-- column lasts_s: {label = "lasts", unit = "s", format = ".3f"}
-- column tokens: {label = "tokens", format = "d"}
-- column beside: {label = "requests beside it in that phase"}
-- column position: {hide = true}
-- empty: no wave has been drawn
-- The last request of the drawn wave, phase by phase.
WITH chosen AS (SELECT seal, max(request) AS request FROM twin_journey_phases GROUP BY seal)
SELECT p.seal,
       CASE p.phase WHEN 'transfer' THEN 'Transfer' WHEN 'decode' THEN 'Decode' ELSE 'Prefill' END AS act,
       CASE p.phase WHEN 'queue' THEN 'router' WHEN 'prefill' THEN 'prefill pool' WHEN 'hold' THEN 'prefill pool, waiting'
                    WHEN 'transfer' THEN 'wire' ELSE 'decode pool' END AS stage,
       CASE p.phase
         WHEN 'queue' THEN 'The router hands the request to a lane of the prefill pool, a replica of its own, where it waits for the next step.'
         WHEN 'prefill' THEN 'The lane computes its prompt together with those of its neighbours. In every layer the tokens visit the GPUs that hold their experts and come back.'
         WHEN 'hold' THEN 'The cache is complete. The step goes on for others, and the request waits for its end.'
         WHEN 'transfer' THEN 'The latent cache and the recurrent state are written into the memory of the decode lane. Then the prefill lane is free.'
         ELSE 'Each step appends a token for every sequence of the lane, until the reply is complete.' END AS caption,
       p.start_ns / 1e9 AS start_s, p.end_ns / 1e9 AS end_s, (p.end_ns - p.start_ns) / 1e9 AS lasts_s, p.tokens,
       (SELECT count(*) FROM twin_journey_phases AS o
        WHERE o.seal = p.seal AND o.phase = p.phase AND o.request <> p.request AND o.start_ns < p.end_ns AND o.end_ns > p.start_ns) AS beside,
       p.position
FROM twin_journey_phases AS p JOIN chosen AS c ON c.seal = p.seal AND c.request = p.request
ORDER BY p.position
