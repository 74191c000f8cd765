"""Drawings: sampling graphs as SVG text."""
