"""Training a crowd of seeds together.

Read in this order: `step` (one update of every seed), `crowd` (their weights and randomness),
`loop` and `train` (a whole run). `recipe` has the settings, `batches` the data, `engine` tries the machine.
"""
