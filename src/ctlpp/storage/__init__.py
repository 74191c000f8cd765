"""Dataset folders: written, read and checked."""
