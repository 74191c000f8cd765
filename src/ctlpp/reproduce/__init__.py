"""Reproducing the paper: its plan, the demo's, and what comes out."""
