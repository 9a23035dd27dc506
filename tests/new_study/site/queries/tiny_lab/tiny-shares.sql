-- title: Share of the roofline
-- column share: {label = "of the bound", format = ".0%"}
SELECT seal, concurrency, share FROM roofline_share_shares WHERE subject = 'tiny-lab' ORDER BY concurrency
