"""The models: ordinary modules, one file each."""

PRESETS = {  # of sizes and recipes; what it says is read without PyTorch
    "authors": "of the authors' code",
    "text": "as the paper's text says",
    "quick": "small enough for a CPU",
}
DEFAULT_PRESET = "authors"
