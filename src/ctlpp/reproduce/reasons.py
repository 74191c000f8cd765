"""Why a number differs from the published one: what our runs can say for and against each explanation.

Every sentence is chosen by the numbers behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from ctlpp.report import published as paper
from ctlpp.report.statistics import Interval, difference
from ctlpp.reproduce.cells import Cell
from ctlpp.reproduce.found import Found, repeats, tables
from ctlpp.reproduce.learning import history_of, learning_of
from ctlpp.reproduce.rows import Row
from ctlpp.reproduce.tables import balanced
from ctlpp.reproduce.variance import Components, components
from ctlpp.reproduce.verdicts import HIGHER, LOWER, REPRODUCED
from ctlpp.reproduce.wording import between, count, mean_of, number, published, share, signed

STILL = 0.01  # of accuracy: a mean that moved less than this over the last tenth of the training is settled
ALIKE = 0.01  # of accuracy: learned as well as in the paper


def differs(row: Row) -> bool:
    """Whether a row comes out higher or lower than published."""
    return row.verdict is not None and row.verdict.word in (HIGHER, LOWER)


def statement(row: Row) -> str:
    """A row against its published number, in a sentence."""
    ours, verdict = row.summary, row.verdict
    if verdict is None or row.published is None:
        return ""
    text = f"{mean_of(ours)} from {count(ours.seeds, 'seed')}, published {number(row.published[0])}"
    text += f" ± {number(row.published[1])}"
    if verdict.interval is not None:
        text += f"; difference {signed(verdict.difference)} ({between(verdict.interval, sign=True)})"
    if row.solved is not None:
        text += f"; above {paper.SOLVED}: {share(ours.solved, ours.seeds)}, published {row.solved} of {paper.SEEDS}"
    return text + "."


def reasons(found: Found, cell: Cell) -> list[str]:
    """What may and what may not explain that the OOD accuracy of a cell is not the published one."""
    row = found.row(cell, "ood")
    makers = (_settings, _learned, _settled, _repeated, _tables, _protocol)
    return [sentence for make in makers for sentence in make(found, cell, row)]


def _settings(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    known, ours = paper.PARAMETERS.get(cell.model), cell.config.get("parameters")
    same = f", and its {known:,} trained parameters are theirs" if known == ours and known else ""
    if cell.preset == "released":
        yield (
            "*Other settings?* None that we know of: model and training are compared, value by value, with what the"
            f" released code does{same} ([what was checked](#what-was-checked))."
        )


def _learned(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    iid, one = found.row(cell, "iid"), learning_of(history_of(cell))
    if iid.summary.mean is None or iid.published is None:
        return
    known = f"IID accuracy is {mean_of(iid.summary)}"
    if has_learned(iid):
        yield f"*Not learned?* No: {known}, as published."
        return
    text = f"*Not learned?* Yes: {known}, published {published(iid.published)}."
    if one and one.learned:
        text += f" Above {paper.SOLVED} IID at the end: {share(len(one.learned), one.seeds)} seeds,"
        text += f" the first from step {one.learned[0]:,} of {one.steps:,} on."
    elif one:
        text += f" No seed is above {paper.SOLVED} IID at the end."
    yield text


def has_learned(iid: Row) -> bool:
    """Whether a cell knows its training data as well as the published one."""
    return iid.summary.mean is None or iid.published is None or iid.summary.mean >= iid.published[0] - ALIKE


def _settled(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    one = learning_of(history_of(cell))
    if one is None or one.moved is None:
        return
    moved = f"over the last tenth of the steps the mean moved by {signed(one.moved, 3)}"
    if not one.learned:
        yield "*Stopped too early?* It cannot be told: no seed has learned its data yet."
    elif not has_learned(found.row(cell, "iid")):
        late = f"{one.late} of {count(one.seeds, 'seed')} learned their data in the last tenth of the steps"
        yield f"*Stopped too early?* So it seems: {late}, {one.seeds - len(one.learned)} have not yet; {moved}."
    elif abs(one.moved) < STILL:
        yield f"*Stopped too early?* No: {moved}."
    else:
        yield f"*Stopped too early?* Perhaps: {moved}."


def _repeated(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for _, one, other in repeats(found):
        if one.name == cell.name:
            yield f"*Repeated sequences in the authors' data?* {repeats_sentence(found, one, other)}"


def repeats_sentence(found: Found, one: Cell, other: Cell) -> str:
    """How repeated sequences move the OOD accuracy of a cell."""
    plain, again = found.row(one, "ood"), found.row(other, "ood")
    if not (moved := change(plain, again)):
        return "Too few seeds to tell."
    by = f"{signed(moved[0])} ({between(moved[1], sign=True)})"
    if moved[1][0] <= 0 <= moved[1][1]:
        text = f"They make no difference that so many seeds can show: {by}."
    else:
        text = f"They {'raise' if moved[0] > 0 else 'lower'} the accuracy: {by}."
    if (
        plain.verdict
        and again.verdict
        and plain.verdict.difference is not None
        and again.verdict.difference is not None
    ):
        text += f" The difference from the published mean is {signed(again.verdict.difference)} with them"
        text += f" and {signed(plain.verdict.difference)} without: "
        text += _explains(plain, again, moved[1]) + "."
    return text


def _explains(plain: Row, again: Row, interval: Interval) -> str:
    assert plain.verdict is not None
    assert again.verdict is not None
    before, after = plain.verdict, again.verdict
    certain = not interval[0] <= 0 <= interval[1]
    nearer = abs(after.difference or 0) < abs(before.difference or 0)
    if differs(plain) and certain and after.word == REPRODUCED:
        return "they explain it"
    if differs(plain) and certain and (after.difference or 0) * (before.difference or 0) < 0:
        return "they move it to the other side"
    if differs(plain) and certain and nearer:
        return "they explain a part of it"
    if differs(plain):
        return "they do not explain it"
    return f"with them the verdict is *{after.word}*, without them *{before.word}*"


def change(before: Row, after: Row) -> tuple[float, Interval] | None:
    """The difference of two of our means, with Welch's interval."""
    mean, std = before.summary.mean, before.summary.std
    return None if mean is None else difference(after.summary, (mean, std or 0.0), before.summary.seeds, 0.0)


def _tables(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for cells in tables(found).values():
        groups = balanced(cells)
        if (
            groups
            and any(one.name == cell.name for one in cells)
            and row.verdict
            and row.verdict.difference is not None
        ):
            reach, gap = reach_of(components(groups)), abs(row.verdict.difference)
            within = "within" if gap <= reach else "beyond"
            yield (
                f"*Another function table?* Theirs is not known. Two tables with 25 seeds each differ by up to"
                f" {number(reach)} in 95 % of cases ([see there](#how-much-the-function-table-matters));"
                f" {number(gap)} is {within} that."
            )


def reach_of(found: Components) -> float:
    """The difference between the means of 25 seeds on two tables that is exceeded in 5 % of cases."""
    return 1.96 * sqrt(2 * (found.between**2 + found.within**2 / paper.SEEDS))


def _protocol(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for planned in found.asked("table1"):
        other = found.done(planned)
        if not other or (other.model, other.variant) != (cell.model, cell.variant) or other.protocol == cell.protocol:
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
