"""Numbers in words, the same everywhere.

Example:
    >>> count(1), count(25), count(2_000, "step")
    ('1 seed', '25 seeds', '2,000 steps')
"""


def count(many: int, noun: str = "seed") -> str:
    """A number with its noun."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def roughly(duration: float) -> str:
    """An estimate in seconds, no finer than it is: to ten seconds within the hour, ten minutes within the day.

    >>> [roughly(time) for time in (7, 198, 15_500, 86_400, 600_000, 1e6, 41e6)]
    ['7 s', '3 min 20 s', '4 h 20 min', '1 day', '6.9 days', '12 days', '1.3 years']
    """
    if duration < 59.5:
        return f"{duration:.0f} s"
    minutes, seconds = divmod(int(round(duration, -1)), 60)
    if minutes < 60:
        return f"{minutes} min" + f" {seconds} s" * bool(seconds)
    hours, minutes = divmod(int(round(duration / 60, -1)), 60)
    if hours < 24:
        return f"{hours} h" + f" {minutes} min" * bool(minutes)
    days = duration / 86_400
    number, what = (days, "day") if days < 365 else (days / 365.25, "year")
    shown = f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}"
    return f"{shown} {what}{'' if shown == '1' else 's'}"
