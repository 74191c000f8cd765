"""Reproducing the paper: the plan, its execution piece by piece, and what comes out."""
