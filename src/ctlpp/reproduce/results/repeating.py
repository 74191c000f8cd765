"""What repeated function sequences do to accuracies, and whether they bring them nearer to the published ones."""

from __future__ import annotations

from ctlpp.reproduce.results.cells import Cell
from ctlpp.reproduce.results.found import Found, repeats
from ctlpp.reproduce.results.rows import Row
from ctlpp.reproduce.results.verdicts import REPRODUCED, UNDECIDED, Verdict
from ctlpp.reproduce.results.wording import between, listed, number, share, signed, title
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Interval, difference

MOST = 0.25  # of a difference: if no more is left, most of it is explained


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
    if plain.verdict and again.verdict:
        text += f" {_toward(plain, again, certain)}"
    if plain.solved is not None:
        both = [share(row.summary.solved, row.summary.seeds) for row in (plain, again)]
        text += f" Above {paper.SOLVED}: {both[0]} without, {both[1]} with, published {plain.solved} of {paper.SEEDS}."
    return text


def effect_of_repeats(found: Found) -> str:
    """Where it is sure that repeated sequences change the OOD accuracy, and where not; empty if nothing has run."""
    sure: dict[bool, list[str]] = {True: [], False: []}
    for _, one, other in repeats(found):
        if moved := change(found.row(one, "ood"), found.row(other, "ood")):
            sure[not moved[1][0] <= 0 <= moved[1][1]].append(f"{title(one.model)} on {one.variant}")
    said = [f"is sure for {listed(sure[True])}"] if sure[True] else []
    said += [f"cannot be told from these seeds for {listed(sure[False])}"] if sure[False] else []
    return f"That repeated sequences change OOD accuracy {', and '.join(said)}." if said else ""


def _toward(plain: Row, again: Row, certain: bool) -> str:
    """What repeated sequences make of the distance to the published mean, and of the verdict."""
    before, after = plain.verdict, again.verdict
    assert before is not None
    assert after is not None
    text = f"The distance to the published mean {_distance(before.difference or 0, after.difference or 0)}"
    text += f": {_explained(before, after, certain)}." if plain.differs else "."
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
