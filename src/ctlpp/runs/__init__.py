"""Run folders: one reader for every command, without PyTorch; checkpoints, history, observers."""
