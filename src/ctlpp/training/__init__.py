"""Training a crowd of seeds together.

Read in this order: `step` (an update of every seed), `crowd` (weights and random numbers), `train` (the loop)
and `run` (what it gives). `recipe` has the settings, `batches` the data, and `engine` tries the machine.
"""
