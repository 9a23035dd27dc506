-- title: Where stored recipe and publication disagree
-- column topic: {label = "about"}
-- column stored: {label = "stored recipe"}
-- column published: {label = "publication"}
-- column follows: {label = "followed here"}
SELECT seal, topic, stored, published, follows, why
FROM bring_up_plan_choices WHERE subject = 'kimi-k3-mi325x' ORDER BY topic
