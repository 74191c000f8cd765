"""`ctlpp check`: prove a dataset folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A dataset folder.")]) -> None:
    """Prove a dataset folder from its task.json alone; fail with the first offending example.

    Proved are: outputs, membership in the sampling graph, no duplicates, disjoint splits, the fill rule, the number of
    function sequences where the recipe limits it, counts and checksums.

    `ctlpp check data/A`
    """
    from ctlpp.cli.tables import print_proof
    from ctlpp.storage.checking import check as prove

    print_proof(prove(folder), folder)
