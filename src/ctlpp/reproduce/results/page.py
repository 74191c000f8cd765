"""The page *Does it reproduce?*: what a results folder says, in Markdown. Every sentence is chosen by the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ctlpp.reproduce.results import chapters
from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.kinds import KINDS, Kind, asked, main_cells, nearest, run
from ctlpp.reproduce.results.places import Places
from ctlpp.reproduce.results.reasons import ALIKE_SETTINGS, among_converged, reasons, statement
from ctlpp.reproduce.results.remaining import miniature, progress
from ctlpp.reproduce.results.repeating import effect_of_repeats
from ctlpp.reproduce.results.similar import Example
from ctlpp.reproduce.results.tables import excluded_table, legend, name_of
from ctlpp.reproduce.results.verdicts import HIGHER, LOWER, REPRODUCED, UNDECIDED
from ctlpp.reproduce.results.wording import NONE, listed, mean_of, published, share, table, title, verdict
from ctlpp.statistics import published as paper

TITLE = "# Does it reproduce?"
NOT_COMPARED, NOT_RUN = "not compared", "not run"
NOT_COMPARABLE = (
    "No run is of the paper's size and settings, so that none is compared with a published number."
)


def make_page(found: Found, seen: Sequence[Example], page: Path) -> str:
    """The text of the page."""
    places = Places(page, found.out)
    sections: dict[str, Callable[[], list[str]]] = {
        "In short": lambda: short(found, places),
        "What differs, and why we think so": lambda: differences(found),
        "Repeated function sequences": lambda: chapters.repeated(found, places),
        "How much the function table matters": lambda: chapters.function_tables(found, places),
        "Variant S": lambda: chapters.staged(found, places),
        "Inside the NDR": lambda: chapters.inside(seen, places),
        "Which measure predicts failure": lambda: chapters.predictors(found, places),
        "Which seeds count": lambda: [legend(), excluded_table(found) or _all_count(found)],
        "Learning, lengths, and the gap": lambda: chapters.details(found, places),
        "What has not been run yet": lambda: chapters.remaining(found),
        "What was checked": lambda: chapters.checks(found, places),
        "How a verdict is made": lambda: [chapters.RULES],
        "Do it yourself": chapters.yourself,
        "The runs": lambda: chapters.runs(found, places),
    }
    parts = [TITLE, *([f"> {notice}"] if (notice := miniature(found)) else []), _top(found, places)]
    for name, make in sections.items():
        parts += [f"## {name}", *(text for text in make() if text)]
    return "\n\n".join(parts) + "\n"


def _top(found: Found, places: Places) -> str:
    folder = f"[{places.out.name}/]({places.of('')})"
    files = f"[results.md]({places.of('results.md')}), and as data: [results.parquet]({places.of('results.parquet')})"
    made = f"*Made by `{'make results' if places.in_repository else 'ctlpp reproduce'}` from {folder}"
    made += "; nothing here is typed by hand.*"
    settings = "those of the preset `quick`" if miniature(found) else "those of the released code"
    names = f"`paper` and `released` name protocols of the data; hyper-parameters are {settings} in both."
    return f"{made} {progress(found)} All tables: {files}.\n\n{names}"


def short(found: Found, places: Places) -> list[str]:
    """What comes nearest, counts of verdicts, the table, the figure."""
    points = [f"- {tally(found, kind)}" for kind in KINDS]
    caption = (
        "Every dot is a seed, hollow if it is left out; squares are means with their 95 % bootstrap intervals; diamonds"
        " are the published means with the intervals that their standard deviations allow."
        f" The dotted line is at {paper.SOLVED}."
    )
    figure = places.figure("table1", "Accuracies of all seeds", caption)
    return [
        f"{nearest(found)} {effect_of_repeats(found)}".strip(),
        "\n".join(points),
        main_table(found),
        figure,
    ]


def tally(found: Found, kind: Kind) -> str:
    """How many published OOD accuracies hold on a kind of data, and which."""
    words = (REPRODUCED, HIGHER, LOWER, UNDECIDED, NOT_COMPARED, NOT_RUN)
    by_word: dict[str, list[str]] = {word: [] for word in words}
    for planned in asked(found, kind):
        cell = found.done(planned)
        judged = found.row(cell, "ood").verdict if cell else None
        word = NOT_RUN if not cell else judged.word if judged else NOT_COMPARED
        by_word[word].append(f"{title(planned.model)} on {planned.variant}")
    total = sum(map(len, by_word.values()))
    about = f"**{kind.title}** ({kind.about})"
    absent, alone = len(by_word[NOT_RUN]), len(by_word[NOT_COMPARED])
    if absent == total:
        return f"{about}: {'nothing has run yet' if total else 'not planned'}."
    if absent + alone == total:
        return f"{about}: {alone} of {total} cells have run, none of the size of the published ones."
    counts = [f"{len(cells)} {word} ({listed(cells)})" for word, cells in by_word.items() if cells]
    return f"{about}: of {total} published OOD accuracies {listed(counts)}."


def main_table(found: Found) -> str:
    """Published and ours: one row for each model, variant and kind of data."""
    cells = {kind: run(found, kind) for kind in KINDS}
    source = "published, full size" if miniature(found) else "published"
    rows = []
    for place, known in paper.PUBLISHED.items():
        solved = NONE if known.solved is None else share(known.solved, paper.SEEDS)
        name = f"**{title(place[0])} on {place[1]}**"
        rows.append([name, source, published(known.iid), published(known.ood), solved, ""])
        if any(place in own for own in cells.values()):
            rows += [["", kind.title, *_ours(found, own.get(place))] for kind, own in cells.items()]
        else:
            rows.append(["", "all three", NOT_RUN, "", "", ""])
    head = ["", "data", "IID", "OOD", f"above {paper.SOLVED}", "verdict on OOD"]
    notes = [f"Mean ± standard deviation over seeds, and how many seeds are above {paper.SOLVED} OOD."]
    notes += [f"Not compared: {why}." for why in not_compared(found)]
    return table(head, rows) + "\n\n" + " ".join(notes)


def _ours(found: Found, cell: Cell | None) -> list[str]:
    if cell is None:
        return [NOT_RUN, "", "", ""]
    iid, ood = found.row(cell, "iid"), found.row(cell, "ood")
    words = verdict(ood.verdict, ood.summary.seeds) if ood.verdict else NOT_COMPARED
    planned = next(one for one in found.plan if one.name == cell.name)
    if left_out := len(cell.seeds) - ood.summary.seeds:
        words += f"; {left_out} left out (IID ≤ {paper.CONVERGED}, or beyond {paper.SEEDS})"
    if left := len(found.missing(planned)):
        words += f"; {left} of {len(planned.seeds)} seeds to come"
    return [mean_of(iid.summary), mean_of(ood.summary), share(ood.summary.solved, ood.summary.seeds), words]


def not_compared(found: Found) -> list[str]:
    """Why no published number applies to some cells, each reason once."""
    return list(dict.fromkeys(", ".join(cell.mismatches) for cell in main_cells(found) if cell.mismatches))


def differences(found: Found) -> list[str]:
    """A paragraph for each cell that is higher or lower, and a list of those that are undecided."""
    every = main_cells(found)
    cells = [cell for cell in every if found.row(cell, "ood").verdict]
    if not cells:
        return [NOT_COMPARABLE if every else chapters.NOT_YET]
    parts = []
    for cell in cells:
        row = found.row(cell, "ood")
        if row.differs and row.verdict:
            points = "\n".join(f"- {sentence}" for sentence in reasons(found, cell))
            parts += [f"**{name_of(cell)}: {row.verdict.word}.** {statement(row)}", points]
    if parts:
        parts.insert(0, ALIKE_SETTINGS)
    else:
        parts = ["No OOD accuracy that has run differs from the published one by more than chance explains."]
    alone = [cell for cell in cells if not found.row(cell, "ood").differs]
    for cell in alone:
        if (iid := found.row(cell, "iid")).differs:
            kept = among_converged(found, cell, found.row(cell, "ood"))
            parts.append(f"IID accuracy differs on {name_of(cell)}: {statement(iid)}{kept}")
    rows = [found.row(cell, "ood") for cell in cells]
    undecided = [row for row in rows if row.verdict and row.verdict.word == UNDECIDED]
    if undecided:
        points = "\n".join(f"- {name_of(row.cell)}: {statement(row)}" for row in undecided)
        parts += [f"Undecided so far:\n\n{points}"]
    return parts


def _all_count(found: Found) -> str:
    if not any(cell.seeds for cell in found.cells.values()):
        return ""
    return "Every seed of every cell has converged and none is beyond the 25th: both ways to count are the same here."
