"""Fast paths for CUDA: drop-ins for pieces of the engine, chosen automatically (see README.md)."""
