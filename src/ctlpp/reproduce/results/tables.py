"""The results as tables in Markdown; each takes what was found and gives a table, or "" where there is nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ctlpp.report.compare import SPLITS
from ctlpp.reproduce.results.cells import ALL, RULE, SELECTIONS, Cell
from ctlpp.reproduce.results.found import Found, repeats, tables
from ctlpp.reproduce.results.learning import history_of, learning_of
from ctlpp.reproduce.results.rows import Row
from ctlpp.reproduce.results.variance import components
from ctlpp.reproduce.results.wording import (
    NONE,
    between,
    chance,
    duration,
    mean_of,
    number,
    published,
    ranges,
    share,
    signed,
    table,
    title,
    verdict,
    yes,
)
from ctlpp.runs.untrusted import as_dict, as_str
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import FEWEST, difference
from ctlpp.words import plural

COLUMNS = ("seeds", "mean ± std", "95 % interval", "median", f"above {paper.SOLVED}")
INSIDE = (
    "*Published mean inside*: whether it lies in our 95 % interval, as if the published mean were exact. The verdict"
    f" knows that both means are of samples, and takes the spread of fewer than {FEWEST} seeds to be at least the"
    " published one: its interval is wider, so that it can be *undecided* beside a *no*."
)


def name_of(cell: Cell) -> str:
    """Model, variant and whatever is special about the data."""
    parts = [f"{title(cell.model)} on {cell.variant}"]
    parts += ["{} + {}".format(*cell.grid)] if cell.grid else []
    parts += [f"table {cell.table}"] if cell.table else []
    parts += [cell.protocol, *(["repeated sequences"] if cell.sequences else [])]
    return ", ".join([*parts, *([f"preset {cell.preset}"] if cell.preset != "released" else [])])


def statistics_table(found: Found, cells: Sequence[Cell], split: str) -> str:
    """Everything about one split, beside what was published; both ways to count where they differ."""
    rows = []
    for row in counted(found, cells, split):
        ours = row.summary
        beside = [published(row.published), yes(row.inside), verdict(row.verdict, ours.seeds)]
        rows.append([label(row), *numbers(row), *(beside if any(cell.published for cell in cells) else [])])
    head = ["", *COLUMNS]
    head += ["published", "published mean inside", "verdict"] if any(cell.published for cell in cells) else []
    return table(head, rows) if rows else ""


def counted(found: Found, cells: Sequence[Cell], split: str) -> Iterator[Row]:
    """The rows of some cells: one where both ways to count are the same."""
    for cell in cells:
        yield found.row(cell, split, ALL)
        if cell.select(RULE) != cell.select(ALL):
            yield found.row(cell, split, RULE)


def label(row: Row) -> str:
    """Cell, and the way to count unless there is only one."""
    same = row.cell.select(RULE) == row.cell.select(ALL)
    return name_of(row.cell) + (
        "" if same else "; by the paper's rule" if row.selection == RULE else "; all seeds"
    )


def numbers(row: Row) -> list[str]:
    """The columns that every table of statistics has."""
    ours = row.summary
    solved = share(ours.solved, ours.seeds, ours.solved_share)
    return [str(ours.seeds), mean_of(ours), between(ours.interval), number(ours.median), solved]


def lengths_table(found: Found, cells: Sequence[Cell]) -> str:
    """Mean accuracy by number of functions."""
    rows = [found.row(cell, split) for cell in cells for split in SPLITS]
    lengths = sorted({length for row in rows for length in row.lengths})
    body = [
        [
            label(row),
            row.split.upper(),
            *(mean_of(row.lengths[n]) if n in row.lengths else NONE for n in lengths),
        ]
        for row in rows
    ]
    return table(["", "", *(f"{n} function{'s' * (n > 1)}" for n in lengths)], body) if lengths else ""


GAPS = (
    "IID and OOD examples differ in their mix of lengths, so the plain gap between them mixes length with composition."
    " At equal lengths it is the mean over the lengths that both have. Under `released` pairs are left out of that"
    " mean: all pairs are in train, and IID has only a handful of them (7 of 1,000 examples at full size)."
)


def gaps_table(found: Found, cells: Sequence[Cell]) -> str:
    """How much lower OOD accuracy is, as it stands and at equal lengths."""
    body = []
    for row in (found.row(cell, "ood") for cell in cells):
        plain, equal = row.gap, row.equal_gap
        if plain and equal:
            both = ((signed(gap.mean, 3), between(gap.interval, 3, sign=True)) for gap in (plain, equal))
            body.append([label(row), *(word for pair in both for word in pair)])
    return (
        table(["", "IID − OOD", "95 % interval", "at equal lengths", "95 % interval"], body) if body else ""
    )


def excluded_table(found: Found) -> str:
    """Seeds that diverged or did not converge, and what becomes of the means."""
    body = []
    for cell in found.cells.values():
        if not cell.seeds or cell.select(RULE) == cell.select(ALL):
            continue
        every, kept = (found.row(cell, "ood", selection) for selection in (ALL, RULE))
        left = len(cell.seeds) - kept.summary.seeds - every.not_converged
        why = [str(every.diverged), str(every.not_converged - every.diverged), str(max(0, left))]
        both = [f"{mean_of(row.summary)} ({plural(row.summary.seeds, 'seed')})" for row in (every, kept)]
        verdicts = [verdict(row.verdict, row.summary.seeds) for row in (every, kept)]
        body.append(
            [name_of(cell), *why, *(word for pair in zip(both, verdicts, strict=True) for word in pair)]
        )
    head = ["", "diverged", f"IID ≤ {paper.CONVERGED}", f"beyond {paper.SEEDS}"]
    return table([*head, "OOD, all", "verdict", "OOD, rule", "verdict"], body) if body else ""


def grid_table(found: Found, model: str, protocol: str = "released") -> str:
    """OOD accuracy on S: shared functions down, shared symbols across."""
    every = found.asked("staged")
    asked = [planned for planned in every if (planned.model, planned.protocol) == (model, protocol)]
    down = sorted({dict(planned.data)["shared_functions"] for planned in asked})
    across = sorted({dict(planned.data)["shared_symbols"] for planned in asked})
    by_place = {cell.grid: cell for planned in asked if (cell := found.done(planned))}
    if not by_place:
        return ""

    def entry(place: tuple[int, int]) -> str:
        if not (cell := by_place.get(place)):
            return NONE
        ours = found.row(cell, "ood", ALL).summary
        return f"{mean_of(ours)} ({ours.seeds})"

    body = [[f"{many} shared functions", *(entry((many, few)) for few in across)] for many in down]
    return table(["", *(f"{few} shared symbols" for few in across)], body)


def repeats_table(found: Found) -> str:
    """Repeated sequences against distinct ones."""
    body = []
    for _, one, other in repeats(found):
        for split in SPLITS:
            plain, again = (found.row(cell, split) for cell in (one, other))
            moved = difference(
                again.summary, (plain.summary.mean or 0, plain.summary.std or 0), plain.summary.seeds, 0
            )
            change = [signed(moved[0]), between(moved[1], sign=True)] if moved else [NONE, NONE]
            both = [f"{mean_of(row.summary)} ({row.summary.seeds})" for row in (plain, again)]
            body.append([f"{name_of(one)}, {split.upper()}", *both, *change, published(again.published)])
    head = ["", "distinct (seeds)", "repeated (seeds)", "change", "95 % interval", "published"]
    return table(head, body) if body else ""


def variance_table(found: Found) -> str:
    """Spread of OOD accuracy between function tables and within them."""
    body = []
    for cells in tables(found).values():
        groups = by_table(cells)
        if not groups:
            continue
        one = components(groups)
        row = [name_of(cells[0]), str(one.tables), ", ".join(map(str, one.seeds))]
        row += [f"{number(one.between, 3)} ({between(one.between_interval, 3)})"]
        row += [f"{number(one.within, 3)} ({between(one.within_interval, 3)})"]
        row += [f"{number(one.share)} ({between(one.share_interval)})", chance(one.chance).removeprefix("= ")]
        body.append(row)
    head = ["OOD accuracy", "tables", "seeds", "std between tables", "std within a table"]
    return table([*head, "the table's share of the variance", "p"], body) if body else ""


def by_table(cells: Sequence[Cell]) -> list[list[float]]:
    """OOD accuracies of all seeds, a list for each function table; nothing if they are too few for variances."""
    every = [[seed.accuracy["ood"] for seed in cell.seeds if "ood" in seed.accuracy] for cell in cells]
    groups = [own for own in every if own]
    return groups if len(groups) > 1 and sum(map(len, groups)) > len(groups) else []


def runs_table(found: Found) -> str:
    """Every run: where and with what, how long."""
    body = []
    for cell in found.cells.values():
        for record in (*cell.records, *cell.others):
            engine, versions = (as_dict(record.config.get(name)) for name in ("engine", "versions"))
            device = " ".join(
                filter(None, (as_str(engine.get("device_name")), as_str(engine.get("precision"))))
            )
            used = ", ".join(
                f"{name} {as_str(versions.get(name))}" for name in ("ctlpp", "torch") if versions.get(name)
            )
            state = record.state + (f": {record.reason}" if record.reason else "")
            if record.state == "finished" and not (record.folder / "analysis" / "analysis.json").is_file():
                state += ", not analysed"
            seeds = ranges(seed.number for seed in record.seeds)
            steps = NONE if record.step is None else f"{record.step:,}"
            when = as_str(record.config.get("started"))[:10]
            body.append(
                [f"`{record.name}`", seeds, steps, device, duration(record.seconds), used, when, state]
            )
    head = ["run", "seeds", "steps", "device", "wall time", "versions", "begun", "state"]
    return table(head, body) if body else ""


def learning_table(cells: Sequence[Cell]) -> str:
    """When the training data were learned, and whether the mean still moves at the end."""
    body = []
    for cell in cells:
        if one := learning_of(history_of(cell)):
            steps = [
                f"{one.learned[0]:,}" if one.learned else NONE,
                NONE if one.half is None else f"{one.half:,}",
            ]
            ends = [share(len(one.learned), one.seeds), str(one.late), signed(one.moved, 3)]
            body.append([name_of(cell), *steps, *ends])
    head = [f"above {paper.LEARNED} IID to stay", "first seed from step", "half of all from", "all in all"]
    return table([*head, "in the last tenth", "mean OOD over the last tenth"], body) if body else ""


def legend() -> str:
    """How seeds are counted, and what the intervals are."""
    return (
        "*All seeds*: a seed that diverged counts with the accuracy at which it was frozen. *The paper's rule*: "
        f"{SELECTIONS[RULE]}. Intervals of means are bootstrap intervals (BCa, 95 %) over seeds, those of shares are "
        "Wilson's."
    )
