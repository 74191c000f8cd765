"""Drawings, and their palette: one colour for one meaning, as on the page of `ctlpp report`.

The page's groups have colours that suit a dark page, too. Markers and dashes say the same without colour.
"""

from typing import NamedTuple

IID, OOD = "#52708C", "#AA1F6E"  # what training has (and the IID test), and what only the OOD test has
SPLITS, DASHES = {"iid": IID, "ood": OOD}, {"iid": "--", "ood": "-"}
GROUPS = ("#E8604C", "#1F3F8F", "#F2B0A4", "#8FA8DC", "#3C9A62", "#C9A227")  # a is red, b blue: as published
PUBLISHED = "#8C8C8C"
SEED, GREY, DARK = "#555555", "#999999", "#333333"  # a seed, what does not count, and lines beside seeds


class Kind(NamedTuple):
    """A kind of data."""

    title: str
    colour: str
    marker: str


DATA = {
    "authors": Kind("authors", "#1B7837", "o"),
    "repeats": Kind("clean with repeats", "#B07D00", "^"),
    "clean": Kind("clean", "#5E4FA2", "v"),
    "text": Kind("text", "#2A9D8F", "P"),
}
