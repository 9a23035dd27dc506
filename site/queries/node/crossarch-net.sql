-- title: Does the kernel library pay, spread included?
-- column concurrency: {label = "concurrency"}
-- column gain: {label = "rate on over off, less one", format = ".1%"}
-- column cost_low: {label = "cost on over off, smallest spread", unit = "x", format = ".3f"}
-- column cost_high: {label = "largest spread", unit = "x", format = ".3f"}
-- column standing: {label = "what follows"}
SELECT seal, concurrency, gain, cost_low, cost_high, standing FROM cost_law_net WHERE subject = 'mi325x-cookbook' ORDER BY concurrency
