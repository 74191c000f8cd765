"""Which seeds a user means.

Example:
    >>> parse_seeds("3"), parse_seeds("3,7,9"), parse_seeds("25-27"), parse_seeds("7-7"), parse_seeds("0-2,9")
    ([0, 1, 2], [3, 7, 9], [25, 26, 27], [7], [0, 1, 2, 9])
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctlpp.files import UserError

_MOST = 100_000  # seeds in one run
_GREATEST = 2**32 - 1
_FORMS = "write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7"


def parse_seeds(text: str) -> list[int]:
    """A count, or numbers and ranges with commas between them."""
    if re.search(r"\d{1000}", text):  # there are numbers so long that Python does not read them
        raise UserError(f"--seeds {text}: seeds go up to {_GREATEST}")
    if text.isdecimal():
        return _range(text, 0, int(text) - 1)
    seeds: list[int] = []
    for part in text.replace(" ", "").split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not found:
            raise UserError(f"--seeds {text}: {_FORMS}")
        seeds += _range(text, int(found[1]), int(found[2] or found[1]))
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise UserError(f"--seeds {text}: seed {twice} is given twice; every seed once")
    return seeds


def seeds_of_run(text: str, have: Sequence[int]) -> list[int]:
    """As `parse_seeds`, for a run that is there: a count that goes beyond its seeds may have meant one seed."""
    seeds = parse_seeds(text)
    missing = next((seed for seed in seeds if seed not in have), None)
    if text.isdecimal() and missing is not None:
        means = "seed 0" if len(seeds) == 1 else f"seeds 0 … {seeds[-1]}"
        own = name_seeds(have).replace(",", ", ").replace("-", " … ")
        alone = f"; one seed alone: {int(text)}-{int(text)}" if int(text) in have else ""
        raise UserError(
            f"no seed {missing} in this run: --seeds {text} means {means}; this run has {own}{alone}"
        )
    return seeds


def _range(text: str, first: int, last: int) -> list[int]:
    if last < first:
        what = "at least one seed is needed" if text.isdecimal() else f"{first}-{last} runs backwards"
        raise UserError(f"--seeds {text}: {what}; {_FORMS}")
    if last - first >= _MOST:
        raise UserError(f"--seeds {text}: at most {_MOST:,} in one run")
    if last > _GREATEST:
        raise UserError(f"--seeds {text}: seeds go up to {_GREATEST}")
    return list(range(first, last + 1))


def name_seeds(seeds: Sequence[int]) -> str:
    """The seeds in short: `0-24`, `3,7,9`."""
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
