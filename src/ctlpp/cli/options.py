"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

RunFolder = Annotated[Path, Argument(metavar="RUN", help="A run folder, as `ctlpp train` writes it.")]
DatasetFolder = Annotated[Path, Argument(metavar="DIR", help="A dataset folder.")]
Force = Annotated[bool, Option("--force", help="Replace what is there, if it is of the same kind.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or mps.")]

# Of plans
Plan = Annotated[bool, Option("--plan", help="Print what would run and what it costs, and stop.")]
Only = Annotated[list[str] | None, Option(help="MODEL/VARIANT or a name from --plan; repeatable.")]
Minutes = Annotated[float | None, Option(help="Save and stop after so many.")]
Retry = Annotated[bool, Option("--retry", help="Take up again what has failed.")]
