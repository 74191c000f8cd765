"""Looking inside: what the seeds of a crowd represent, and which measure explains their failures."""
