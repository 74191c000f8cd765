"""Numbers in words, the same everywhere, and names that have changed.

Example:
    >>> plural(1), plural(25), plural(2_000, "step")
    ('1 seed', '25 seeds', '2,000 steps')
    >>> [duration(time) for time in (7, 198, 15_500, 86_400, 600_000, 1e6, 41e6)]
    ['7 s', '3 min 20 s', '4 h 20 min', '1 day', '6.9 days', '12 days', '1.3 years']
    >>> parse_seeds("3"), parse_seeds("3,7,9"), parse_seeds("25-27"), parse_seeds("7-7"), parse_seeds("0-2,9")
    ([0, 1, 2], [3, 7, 9], [25, 26, 27], [7], [0, 1, 2, 9])
    >>> name_seeds([0, 1, 2, 9])
    '0-2,9'
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ctlpp.files import UserError

OLD_PROTOCOLS = {"released": "clean", "paper": "text"}  # in old commands and folders
OLD_PRESETS = {"released": "authors", "paper": "text"}
_MOST_SEEDS = 100_000  # in one run
GREATEST_SEED = 2**32 - 1


def plural(number: int, noun: str = "seed") -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain(value: Any) -> Any:
    """A single number of NumPy or PyTorch as Python's own; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def as_names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names, of which one alone may stand without a list."""
    return (given,) if isinstance(given, str) else tuple(given)


def duration(estimate: float) -> str:
    """Seconds in words, rounded to ten seconds within the hour and to ten minutes within the day."""
    if estimate < 59.5:
        return f"{estimate:.0f} s"
    minutes, seconds = divmod(int(round(estimate, -1)), 60)
    if minutes < 60:
        return f"{minutes} min" + f" {seconds} s" * bool(seconds)
    hours, minutes = divmod(int(round(estimate / 60, -1)), 60)
    if hours < 24:
        return f"{hours} h" + f" {minutes} min" * bool(minutes)
    days = estimate / 86_400
    number, unit = (days, "day") if days < 365 else (days / 365.25, "year")
    shown = f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}"
    return f"{shown} {unit}{'' if shown == '1' else 's'}"


def parse_seeds(text: str) -> list[int]:
    """A count, or numbers and ranges with commas between them."""
    seeds: list[int] = []
    for part in text.replace(" ", "").split(","):
        found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, -1)
        if text.isdecimal():
            first, last = 0, first - 1
        if not first <= last <= GREATEST_SEED:
            raise UserError(
                f"‹seeds› {text}: write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7, up to {GREATEST_SEED}"
            )
        if last - first >= _MOST_SEEDS:
            raise UserError(f"‹seeds› {text}: at most {_MOST_SEEDS:,} in one run")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise UserError(f"‹seeds› {text}: seed {twice} is given twice; give every seed once")
    return seeds


def read_seeds(given: Iterable[int]) -> list[int]:
    """Seeds are distinct whole numbers, at least one of them."""
    if not isinstance(given, Iterable):
        raise UserError(f"‹seeds› {given}: give several numbers, such as range(5)")
    seeds = [plain(seed) for seed in given]
    if not seeds:
        raise UserError("no seeds: give at least one")
    for seed in seeds:
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= GREATEST_SEED:
            raise UserError(f"seed {seed!r}: must be a whole number from 0 to {GREATEST_SEED}")
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise UserError(f"seed {twice} is given twice: every seed once")
    return seeds


def name_seeds(seeds: Sequence[int]) -> str:
    """The seeds in short: `0-24`, `3,7,9`."""
    ranges: list[list[int]] = []
    for seed in seeds:
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    return ",".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ranges)
