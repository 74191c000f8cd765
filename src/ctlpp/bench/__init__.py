"""Measurements behind every claim of speed."""
