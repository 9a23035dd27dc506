-- title: How many recorded failures are staged, and how
-- column failures: {label = "recorded failures"}
-- column live: {label = "staged live"}
-- column played: {label = "played by a node"}
-- column said: {label = "said by an engine"}
-- column denied: {label = "denied by a rule"}
-- column engine: {label = "rules of engine versions"}
SELECT f.seal, count(*) AS failures, count(*) FILTER (how = 'live') AS live,
       count(*) FILTER (how = 'played') AS played, count(*) FILTER (how = 'said') AS said,
       count(*) FILTER (how = 'rule') AS denied,
       (SELECT count(*) FROM bring_up_rules_rules) AS rules,
       (SELECT count(*) FROM bring_up_rules_engine) AS engine
FROM bring_up_rules_failures AS f GROUP BY f.seal ORDER BY f.seal
