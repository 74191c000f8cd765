"""Training a crowd of seeds together.

Read in this order: `step` (an update of every seed), `crowd` (weights), `streams` (random numbers),
`loop` and `train` (a whole run). `recipe` has the settings, `batches` the data, `engine` tries the machine.
"""
