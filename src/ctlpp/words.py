"""Numbers in words, the same everywhere, and names that have changed.

Example:
    >>> plural(1), plural(25), plural(2_000, "step")
    ('1 seed', '25 seeds', '2,000 steps')
    >>> [duration(time) for time in (7, 198, 15_500, 86_400, 600_000, 1e6, 41e6)]
    ['7 s', '3 min 20 s', '4 h 20 min', '1 day', '6.9 days', '12 days', '1.3 years']
"""

from typing import Any

OLD_PROTOCOLS = {"released": "clean", "paper": "text"}  # in old commands and folders
OLD_PRESETS = {"released": "authors", "paper": "text"}


def plural(number: int, noun: str = "seed") -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain(value: Any) -> Any:
    """A single number of NumPy or PyTorch as Python's own; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


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
