"""The models: ordinary modules, one file each."""
