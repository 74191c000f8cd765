"""Training a crowd of seeds together.

Read in this order: `step` (one update of every seed), `crowd` (their weights), `streams` (their random numbers),
`loop` and `train` (a whole run). `recipe` holds the settings, `batches` the data, `engine` what the machine can do.
"""
