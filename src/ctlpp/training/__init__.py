"""Training a crowd of seeds together.

Read in this order: `step` (one update of every seed), `crowd` (their weights), `streams` (their random numbers), `loop`
and `run` (a whole run). `recipe` holds the settings, `batches` the order of the data, `checkpoint` and `folder` what
is kept on disk.
"""
