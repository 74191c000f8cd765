"""Numbers and tables as text.

Example:
    >>> spread(0.7512, 0.2704), between((0.6366, 0.8449)), signed(-0.0312)
    ('0.75 ± 0.27', '0.64 – 0.84', '−0.03')
    >>> print(table(["model", "OOD"], [["NDR", "0.75"]]))
    | model | OOD |
    | --- | --- |
    | NDR | 0.75 |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ctlpp import words
from ctlpp.reproduce.results.verdicts import UNDECIDED, Verdict
from ctlpp.statistics import published as paper
from ctlpp.statistics.summary import Interval, Summary
from ctlpp.words import plural

NONE = "–"


def number(value: float | None, digits: int = 2) -> str:
    """An accuracy as the paper prints it."""
    if value is None:
        return NONE
    return f"{abs(value) if round(value, digits) == 0 else value:.{digits}f}".replace("-", "−")


def chance(p: float) -> str:
    """A probability to put behind a "p".

    >>> chance(0.0123), chance(0.0001)
    ('= 0.012', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"= {number(p, 3)}"


def signed(value: float | None, digits: int = 2) -> str:
    """A difference, with its sign."""
    text = number(value, digits)
    return text if value is None or value <= 0 or round(value, digits) == 0 else f"+{text}"


def spread(mean: float | None, std: float | None) -> str:
    """Mean ± standard deviation; one seed has no deviation."""
    if mean is None:
        return NONE
    return number(mean) if std is None else f"{number(mean)} ± {number(std)}"


def between(interval: Interval | None, digits: int = 2, sign: bool = False) -> str:
    """An interval; with "to" where a sign would be taken for the dash."""
    if interval is None:
        return NONE
    low, high = ((signed if sign else number)(end, digits) for end in interval)
    return f"{low} to {high}" if sign or min(interval) < 0 else f"{low} – {high}"


def mean_of(summary: Summary) -> str:
    """Mean ± standard deviation of a summary."""
    return spread(summary.mean, summary.std)


def share(count: int, of: int, interval: Interval | None = None) -> str:
    """A number of seeds, with the interval of their share."""
    if not of:
        return NONE
    text = f"{count} of {of}"
    return text if interval is None else f"{text} ({interval[0]:.0%} – {interval[1]:.0%})".replace("%", " %")


def published(row: tuple[float, float] | None) -> str:
    """A published mean and standard deviation."""
    return NONE if row is None else spread(*row)


def yes(value: bool | None) -> str:
    """Yes or no."""
    return NONE if value is None else "yes" if value else "no"


def verdict(found: Verdict | None, seeds: int) -> str:
    """A verdict in words."""
    if found is None:
        return NONE
    if found.iid:
        return f"undecided: {signed(found.difference)}, but IID is **{found.iid}**"
    if found.word == UNDECIDED:
        return f"undecided with {plural(seeds, 'seed')}" if seeds else "undecided, no seed counts"
    return f"**{found.word}**" if found.interval is None else f"**{found.word}** ({signed(found.difference)})"


def title(model: str) -> str:
    """A model's name in a table."""
    return paper.TITLES.get(model, model)


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words one after the other: a, b and c."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else "".join(words)


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers, runs of them shortened: 0 – 4, 7."""
    runs: list[list[int]] = []
    for each in sorted(set(numbers)):
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} – {run[-1]}" for run in runs)


def duration(seconds: float | None) -> str:
    """A time, roughly, where there is one."""
    return NONE if seconds is None else words.duration(seconds)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
