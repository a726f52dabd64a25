"""The compiled loops, grouped by what they serve.

| where | what |
|---|---|
| `head` | the typed record of the numbers that a model has as a whole |
| `keys` | feature keys: the order in which names win ties |
| `prefetch` | asking for memory before it is needed |
| `sparse/` | models with few weights: slots, truncation, projection, lazy scaling, the bucket queue, features seen |
| `dense/` | models with a weight for every feature: storage, weights by name, lazy soft thresholds, selection |
| `columns/` | whole columns: the column store, correlation, contingency, independence, dominance |
| `joint/` | deciding feature by feature: counting by bins, stages, backups, walks through a model |
| `numbers/` | plain numbers: order statistics, sorting, random numbers, tails of distributions, the L1 ball |
"""
