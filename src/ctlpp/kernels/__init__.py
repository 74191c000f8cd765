"""Fast paths for CUDA: drop-ins for pieces of the engine, chosen automatically. See the README in this folder."""
