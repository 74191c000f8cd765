"""Training a crowd of seeds together."""
