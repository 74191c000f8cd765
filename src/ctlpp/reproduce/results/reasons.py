"""Why a number differs from the published one: what our runs can say for and against each explanation.

Every sentence is chosen by the numbers behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

from ctlpp.reproduce.results.cells import RULE, Cell
from ctlpp.reproduce.results.found import Found, repeats, tables
from ctlpp.reproduce.results.learning import history_of, learning_of
from ctlpp.reproduce.results.repeating import change, repeats_sentence
from ctlpp.reproduce.results.rows import Row
from ctlpp.reproduce.results.tables import by_table
from ctlpp.reproduce.results.variance import Components, components
from ctlpp.reproduce.results.wording import between, mean_of, number, published, share, signed
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import LEVEL
from ctlpp.words import plural

STILL = 0.01  # of accuracy: a mean that moved less than this over the last tenth of the training is settled
ALIKE = 0.01  # of accuracy: learned as well as in the paper
ALIKE_SETTINGS = (
    "Other settings are no reason that we know of: models, their initial weights, the recipes and the optimiser are"
    " held against what the released code does, in tests ([what was checked](#what-was-checked))."
)


def statement(row: Row) -> str:
    """A row against its published number, in a sentence."""
    ours, verdict = row.summary, row.verdict
    if verdict is None or row.published is None:
        return ""
    text = f"{mean_of(ours)} from {plural(ours.seeds, 'seed')}, published {number(row.published[0])}"
    text += f" ± {number(row.published[1])}"
    if verdict.interval is not None and ours.seeds > 2:
        text += f"; difference {signed(verdict.difference)} ({between(verdict.interval, sign=True)})"
    if row.solved is not None:
        text += f"; above {paper.SOLVED}: {share(ours.solved, ours.seeds)}, published {row.solved} of {paper.SEEDS}"
    return text + "."


def reasons(found: Found, cell: Cell) -> list[str]:
    """What may and what may not explain that the OOD accuracy of a cell is not the published one."""
    row = found.row(cell, "ood")
    makers = (_learned, _settled, _repeated, _tables, _protocol)
    return [sentence for make in makers for sentence in make(found, cell, row)]


def _learned(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    iid, one = found.row(cell, "iid"), learning_of(history_of(cell))
    if iid.summary.mean is None or iid.published is None:
        return
    asked, known = "*Has it learned data like its training data?*", f"IID accuracy is {mean_of(iid.summary)}"
    if has_learned(iid):
        yield f"{asked} Yes: {known}, as published."
    elif one and one.learned:
        yield (
            f"{asked} Not every seed: {known}, published {published(iid.published)}."
            f" Above {paper.LEARNED} IID at the end: {share(len(one.learned), one.seeds)} seeds, the first from step"
            f" {one.learned[0]:,} of {one.steps:,} on.{among_converged(found, cell, row)}"
        )
    else:
        none = f" No seed is above {paper.LEARNED} IID at the end." if one else ""
        yield f"{asked} No: {known}, published {published(iid.published)}.{none}"


def among_converged(found: Found, cell: Cell, row: Row) -> str:
    """What is left if seeds that did not converge are not counted, as with the published Transformers."""
    kept = found.row(cell, "ood", RULE)
    if row.selection == RULE or kept.summary.seeds == row.summary.seeds or not kept.verdict:
        return ""
    word = f"{kept.verdict.word}, {signed(kept.verdict.difference)}"
    return f" Without those of IID {paper.CONVERGED} or less OOD is {mean_of(kept.summary)} ({word})."


def has_learned(iid: Row) -> bool:
    """Whether a cell knows its training data as well as the published one."""
    return iid.summary.mean is None or iid.published is None or iid.summary.mean >= iid.published[0] - ALIKE


def _settled(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    one = learning_of(history_of(cell))
    if one is None or one.moved is None:
        return
    moved = f"over the last tenth of the steps the mean moved by {signed(one.moved, 3)}"
    if not one.learned:
        answer = "It cannot be told: no seed has learned its data yet."
    elif not has_learned(found.row(cell, "iid")) and row.verdict and (row.verdict.difference or 0) > 0:
        few = plural(one.seeds - len(one.learned), "seed")
        answer = f"For {few} to learn the data, but that cannot make the mean higher than published; {moved}."
    elif not has_learned(found.row(cell, "iid")):
        late = f"{one.late} of {plural(one.seeds, 'seed')}" if one.late else "no seed"
        answer = "So it seems" if one.late else "It cannot be told"
        answer += f": {late} came to it in the last tenth of the steps, {one.seeds - len(one.learned)} have not yet;"
        answer += f" {moved}."
    elif abs(one.moved) < STILL:
        answer = f"No: {moved}."
    elif row.verdict and one.moved * (row.verdict.difference or 0) > 0:
        answer = f"No: {moved}, away from the published one."
    else:
        answer = f"Perhaps: {moved}, toward the published one."
    yield f"*Stopped too early?* {answer}"


def _repeated(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    said = [repeats_sentence(found, one, other) for _, one, other in repeats(found) if one.name == cell.name]
    if not cell.sequences:
        yield f"*Repeated sequences in the authors' data?* {said[0] if said else 'Not run.'}"


def _tables(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    said = list(_other_tables(found, cell, row))
    yield f"*Another function table?* {said[0] if said else 'Not run.'}"


def _other_tables(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for cells in tables(found).values():
        groups = by_table(cells)
        if (
            groups
            and any(_same_place(one, cell) for one in cells)
            and row.verdict
            and row.verdict.difference is not None
        ):
            one, gap = components(groups), abs(row.verdict.difference)
            reach, most = reach_of(one), reach_of(replace(one, between=one.between_interval[1]))
            within = "within that" if gap <= reach else "beyond that"
            if reach < gap <= most:
                within += f", but not beyond what the estimates leave open ({number(most)})"
            kind = "repeated" if cells[0].sequences else "distinct"
            where = "" if bool(cells[0].sequences) == bool(cell.sequences) else f", with {kind} sequences"
            yield (
                f"Theirs is not known. By our estimates two tables with 25 seeds each differ by up to"
                f" {number(reach)} in 95 % of cases{where} ([see there](#how-much-the-function-table-matters));"
                f" {number(gap)} is {within}."
            )


def _same_place(one: Cell, other: Cell) -> bool:
    """Whether two cells differ in function table or in repeated sequences only."""
    return (one.model, one.variant, one.protocol) == (other.model, other.variant, other.protocol)


def reach_of(found: Components) -> float:
    """The difference between the means of 25 seeds on two tables that is exceeded in 5 % of cases (Student's t)."""
    from scipy.stats import t

    far = float(t.ppf((1 + LEVEL) / 2, found.tables - 1))
    return far * sqrt(2 * (found.between**2 + found.within**2 / paper.SEEDS))


def _protocol(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for planned in found.asked("table1"):
        other = found.done(planned)
        if (
            not other
            or (other.model, other.variant) != (cell.model, cell.variant)
            or other.protocol == cell.protocol
        ):
            continue
        if cell.sequences:  # another protocol without them would be two changes at a time
            continue
        theirs = found.row(other, "ood")
        moved = change(row, theirs)
        if not moved:
            continue
        there = f"{mean_of(theirs.summary)} ({theirs.verdict.word if theirs.verdict else 'not compared'})"
        by = f"a difference of {signed(moved[0])} ({between(moved[1], sign=True)})"
        if moved[1][0] <= 0 <= moved[1][1]:
            yield f"*The protocol?* With `{other.protocol}` it is {there}: {by}, no more than chance explains."
        else:
            yield f"*The protocol?* It matters: with `{other.protocol}` it is {there}, {by}.{_theirs(cell)}"


def _theirs(cell: Cell) -> str:
    return " The published numbers come from the released code." if cell.protocol == "paper" else ""
