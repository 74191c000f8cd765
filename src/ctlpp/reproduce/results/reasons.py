"""Why a number differs from the published one: what our runs can say for and against each explanation.

Every sentence is chosen by the numbers behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.found import Found, repeats, tables
from ctlpp.reproduce.results.learning import history_of, learning_of
from ctlpp.reproduce.results.rows import Row
from ctlpp.reproduce.results.tables import balanced
from ctlpp.reproduce.results.variance import Components, components
from ctlpp.reproduce.results.verdicts import HIGHER, LOWER, REPRODUCED, UNDECIDED, Verdict
from ctlpp.reproduce.results.wording import between, mean_of, number, published, share, signed
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Interval, difference
from ctlpp.wording import count

STILL = 0.01  # of accuracy: a mean that moved less than this over the last tenth of the training is settled
ALIKE = 0.01  # of accuracy: learned as well as in the paper
MOST = 0.25  # of a difference: if no more is left, most of it is explained
ALIKE_SETTINGS = (
    "Other settings are no reason that we know of: models, their initial weights, the recipes and the optimiser are"
    " held against what the released code does, in tests ([what was checked](#what-was-checked))."
)


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
            f" {one.learned[0]:,} of {one.steps:,} on."
        )
    else:
        none = f" No seed is above {paper.LEARNED} IID at the end." if one else ""
        yield f"{asked} No: {known}, published {published(iid.published)}.{none}"


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
        few = count(one.seeds - len(one.learned), "seed")
        answer = f"For {few} to learn the data, but that cannot make the mean higher than published; {moved}."
    elif not has_learned(found.row(cell, "iid")):
        late = f"{one.late} of {count(one.seeds, 'seed')}" if one.late else "no seed"
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
    for _, one, other in repeats(found):
        if one.name == cell.name:
            yield f"*Repeated sequences in the authors' data?* {repeats_sentence(found, one, other)}"


def repeats_sentence(found: Found, one: Cell, other: Cell) -> str:
    """How repeated sequences move the OOD accuracy of a cell, and whether toward the published one."""
    plain, again = found.row(one, "ood"), found.row(other, "ood")
    if not (moved := change(plain, again)):
        return "Too few seeds to tell."
    by = f"{signed(moved[0])} ({between(moved[1], sign=True)})"
    certain = not moved[1][0] <= 0 <= moved[1][1]
    if certain:
        text = f"They {'raise' if moved[0] > 0 else 'lower'} the accuracy: {by}."
    else:
        text = f"They make no difference that so many seeds can show: {by}."
    return f"{text} {_toward(plain, again, certain)}" if plain.verdict and again.verdict else text


def _toward(plain: Row, again: Row, certain: bool) -> str:
    """What repeated sequences make of the distance to the published mean, and of the verdict."""
    before, after = plain.verdict, again.verdict
    assert before is not None
    assert after is not None
    text = f"The distance to the published mean {_distance(before.difference or 0, after.difference or 0)}"
    text += f": {_explained(before, after, certain)}." if differs(plain) else "."
    if before.word == after.word:
        return f"{text} Verdict: *{after.word}* both ways."
    return f"{text} Verdict: *{before.word}* without them, *{after.word}* with them."


def _distance(before: float, after: float) -> str:
    """From the first difference to the second; the sides are told if they are not the same."""
    far, near = number(abs(before)), number(abs(after))
    crossed = before * after < 0 and number(0) not in (far, near)
    if far == near:
        return f"stays {near}" + (", on the other side" if crossed else "")
    if crossed:
        sides = {True: "below it", False: "above it"}
        far, near = f"{far} ({sides[before < 0]})", f"{near} ({sides[after < 0]})"
    return f"{'shrinks' if abs(after) < abs(before) else 'grows'} from {far} to {near}"


def _explained(before: Verdict, after: Verdict, certain: bool) -> str:
    """What repeated sequences make of a difference."""
    far, near = abs(before.difference or 0), abs(after.difference or 0)
    if not certain:
        return "nothing shows that they explain the difference"
    if after.word == REPRODUCED:
        return "they explain the difference"
    if near <= MOST * far:
        return "they explain most of the difference"
    if after.word == UNDECIDED:
        return "they may explain the difference"
    if (before.difference or 0) * (after.difference or 0) < 0:
        return "they overshoot the published mean"
    return f"they {'explain a part of the difference' if near < far else 'make the difference larger'}"


def change(before: Row, after: Row) -> tuple[float, Interval] | None:
    """The difference of two of our means, with Welch's interval."""
    mean, std = before.summary.mean, before.summary.std
    return None if mean is None else difference(after.summary, (mean, std or 0.0), before.summary.seeds, 0.0)


def _tables(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for cells in tables(found).values():
        groups = balanced(cells)
        if (
            groups
            and any(_same_place(one, cell) for one in cells)
            and row.verdict
            and row.verdict.difference is not None
        ):
            reach, gap = reach_of(components(groups)), abs(row.verdict.difference)
            within = "within" if gap <= reach else "beyond"
            kind = "repeated" if cells[0].sequences else "distinct"
            where = "" if bool(cells[0].sequences) == bool(cell.sequences) else f", with {kind} sequences"
            yield (
                f"*Another function table?* Theirs is not known. Two tables with 25 seeds each differ by up to"
                f" {number(reach)} in 95 % of cases{where} ([see there](#how-much-the-function-table-matters));"
                f" {number(gap)} is {within} that."
            )


def _same_place(one: Cell, other: Cell) -> bool:
    """Whether two cells differ in function table or in repeated sequences only."""
    return (one.model, one.variant, one.protocol) == (other.model, other.variant, other.protocol)


def reach_of(found: Components) -> float:
    """The difference between the means of 25 seeds on two tables that is exceeded in 5 % of cases."""
    return 1.96 * sqrt(2 * (found.between**2 + found.within**2 / paper.SEEDS))


def _protocol(found: Found, cell: Cell, row: Row) -> Iterator[str]:
    for planned in found.asked("table1"):
        other = found.done(planned)
        if not other or (other.model, other.variant) != (cell.model, cell.variant) or other.protocol == cell.protocol:
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
