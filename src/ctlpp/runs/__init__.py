"""Run folders: one reader for every command, without PyTorch; history and observers; checkpoints."""
