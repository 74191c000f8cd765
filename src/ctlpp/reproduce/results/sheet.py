"""`results.md`: all tables of a results folder, one after the other."""

from __future__ import annotations

from ctlpp.reproduce.results.claims import claims
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.kinds import main_cells
from ctlpp.reproduce.results.predicting import ABOUT, predictions, predictors_table
from ctlpp.reproduce.results.remaining import done_table, failures, miniature, progress
from ctlpp.reproduce.results.tables import (
    GAPS,
    INSIDE,
    excluded_table,
    gaps_table,
    grid_table,
    learning_table,
    legend,
    lengths_table,
    repeats_table,
    runs_table,
    statistics_table,
    variance_table,
)
from ctlpp.reproduce.results.wording import table, title

NOTHING = "Nothing has run yet."


def sheet(found: Found) -> str:
    """The text of `results.md`."""
    main = main_cells(found)
    other = [cell for cell in found.cells.values() if cell.seeds and cell not in main]
    sections = {
        "Models on A and R: OOD accuracy": statistics_table(found, main, "ood"),
        "Models on A and R: IID accuracy": statistics_table(found, main, "iid"),
        "Seeds that the paper's rule leaves out": excluded_table(found),
        "By number of functions": lengths_table(found, main),
        "The gap between IID and OOD": f"{GAPS}\n\n{gaps}" if (gaps := gaps_table(found, main)) else "",
        "How they learned": learning_table(main),
        **{
            f"{title(model)} on S: OOD accuracy": grid_table(found, model)
            for model in ("ndr", "lstm", "transformer")
        },
        "What the paper says of S": claims_table(found),
        "Repeated sequences": repeats_table(found),
        "Function tables": variance_table(found),
        "Which measure predicts failure": f"{ABOUT}\n\n{predictors_table(every)}"
        if (every := predictions(found))
        else "",
        "All other cells: OOD accuracy": statistics_table(found, other, "ood"),
        "All other cells: IID accuracy": statistics_table(found, other, "iid"),
        "What has run, and what has not": done_table(found),
        "Failed": "\n".join(f"- `{name}`: {reason}" for name, reason in failures(found).items()),
        "Runs": runs_table(found),
    }
    parts = ["# Results", *([f"> {notice}"] if (notice := miniature(found)) else [])]
    parts += [f"{progress(found)} Written by `ctlpp reproduce` from `runs/`, not by hand.", legend()]
    parts += [INSIDE] if any(cell.published for cell in main) else []
    parts += [f"## {name}\n{text}" for name, text in sections.items() if text]
    return "\n\n".join(parts) + "\n"


def claims_table(found: Found) -> str:
    """Statements of the paper about S, and ours."""
    rows = [[claim.text, claim.ours, claim.word] for claim in claims(found)]
    return table(["published, in words", "ours", "verdict"], rows) if rows else ""
