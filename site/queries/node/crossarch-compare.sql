-- title: What both publications print about MI325X
-- column topic: {label = "about"}
-- column cluster: {label = "the Kimi-K3 publication", seal = "seal_cluster"}
-- column node: {label = "the study of a node", seal = "seal_node", disputed = "disputed"}
-- column disputed: {hide = true}
-- column alike: {label = "do they speak of the same thing?"}
-- column position: {hide = true}
SELECT seal_cluster, seal_node, [seal_cluster, seal_node] AS seal, topic, cluster, node, alike, position,
  CASE WHEN topic = 'highest printed rate' THEN contradicted('mi325x-crossarch', 'peak.llama') END AS disputed FROM (
  SELECT h.seal AS seal_cluster, f.seal AS seal_node, 'memory of a GPU' AS topic, h.mi325x AS cluster,
    f.value_printed || ' ' || f.unit AS node, 'yes: the same part' AS alike, h.position AS position
  FROM published_configuration_hardware h, published_figures_figures f
  WHERE h.component = 'HBM per GPU' AND f.quantity = 'memory per GPU'
  UNION ALL
  SELECT h.seal, f.seal, 'GPUs at work', h.mi325x, f.value_printed,
    'no: pools of nodes for prefill and for decode against one engine on a node', h.position
  FROM published_configuration_hardware h, published_figures_figures f
  WHERE h.component = 'GPUs per pool' AND f.quantity = 'GPUs' AND f.model = 'all'
  UNION ALL
  SELECT e.seal, l.seal, 'highest printed rate', e.value_printed || ' ' || e.unit || ', output tokens',
    l.total_tokens_per_s_printed || ' tokens/s, prompt and reply (' || l.output_tokens_per_s_printed || ' output)',
    'no: another model, and a rate that counts prompts is another quantity', e.concurrency
  FROM published_decode_envelope e, published_levels_levels l
  WHERE e.platform = 'mi325x' AND e.quantity = 'throughput' AND l.series = 'llama-3.1-405b/stress/saturation'
    AND l.total_tokens_per_s = (SELECT max(total_tokens_per_s) FROM published_levels_levels WHERE series = 'llama-3.1-405b/stress/saturation')
  UNION ALL
  SELECT e.seal, f.seal, 'users at that rate', CAST(e.concurrency AS VARCHAR), f.value_printed,
    'partly: both are where the ladder ends or flattens; slots bind in the cluster, the node is said to be bound by bandwidth', e.concurrency
  FROM published_decode_envelope e, published_figures_figures f
  WHERE e.platform = 'mi325x' AND e.quantity = 'throughput' AND f.quantity = 'saturation, short'
) ORDER BY position, topic
