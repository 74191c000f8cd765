"""What has run of the plan, what has not, and what the rest would cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ctlpp.reproduce.cost import DEVICES, START, seconds
from ctlpp.reproduce.failures import read_failure
from ctlpp.reproduce.plan import PlannedRun
from ctlpp.reproduce.results.cells import RUNS
from ctlpp.reproduce.results.found import Found
from ctlpp.reproduce.results.wording import NONE, duration, ranges, table, title
from ctlpp.words import plural

SHORT = {
    "table1": "A and R",
    "staged": "grid of S",
    "similarity": "similarity",
    "repeats": "repeated sequences",
    "tables": "function tables",
}


def device_of(found: Found) -> str:
    """The device that costs are told for: a GPU, or a CPU for the miniature."""
    return "cpu" if all(planned.preset == "quick" for planned in found.plan) else "cuda"


def cost(found: Found, planned: Iterable[PlannedRun]) -> float:
    """Seconds for all that is missing of some cells."""
    return sum(seconds(one, len(found.missing(one)), device_of(found)) for one in planned)


def miniature(found: Found) -> str:
    """Says so if it is one."""
    if device_of(found) != "cpu":
        return ""
    return (
        "**This is a miniature**: small models on small data for a few steps. It shows how everything works; about the"
        " published numbers, which are of the full size, it says nothing."
    )


def progress(found: Found) -> str:
    """In a sentence."""
    planned = sum(len(one.seeds) for one in found.plan)
    left = sum(len(found.missing(one)) for one in found.plan)
    if not left:
        return f"All {planned:,} planned seeds have run."
    device = device_of(found)
    takes = f"takes about {duration(START[device] + cost(found, found.plan))} on {DEVICES[device]}"
    if left == planned:
        return f"Nothing has run yet: the whole plan, {plural(planned, 'seed')}, {takes}."
    return f"{planned - left:,} of {planned:,} planned seeds have run; the rest {takes}."


def done_table(found: Found) -> str:
    """Every planned cell: how much of it there is."""
    rows = []
    for one in found.plan:
        left = found.missing(one)
        state = [str(len(one.seeds) - len(left)), ranges(left) or NONE]
        rest = duration(cost(found, [one])) if left else NONE
        rows.append(
            [f"`{one.name}`", ", ".join(one.experiments), f"{one.steps:,}", str(len(one.seeds)), *state, rest]
        )
    head = ["cell", "for", "steps", "seeds", "finished", "remaining", f"on {DEVICES[device_of(found)]}"]
    return table(head, rows)


def summary_table(found: Found) -> str:
    """The same in few lines: by experiment, model and protocol."""
    groups: dict[tuple[str, str, str], list[PlannedRun]] = {}
    for one in found.plan:
        groups.setdefault((one.experiments[0], one.model, one.protocol), []).append(one)
    rows = [[*_names(key), *_state(found, cells)] for key, cells in groups.items()]
    head = [
        "",
        "model",
        "protocol",
        "cells complete",
        "seeds finished",
        f"rest, on {DEVICES[device_of(found)]}",
    ]
    return table(head, rows)


def _names(key: tuple[str, str, str]) -> list[str]:
    experiment, model, protocol = key
    return [SHORT.get(experiment, experiment), title(model), protocol]


def _state(found: Found, cells: Sequence[PlannedRun]) -> list[str]:
    complete = sum(not found.missing(one) for one in cells)
    wanted = sum(len(one.seeds) for one in cells)
    left = sum(len(found.missing(one)) for one in cells)
    rest = duration(cost(found, cells)) if left else NONE
    return [f"{complete} of {len(cells)}", f"{wanted - left} of {wanted}", rest]


def failures(found: Found) -> dict[str, str]:
    """Pieces that failed, by name, and why."""
    notes = sorted((found.out / RUNS).glob("*/*.failed.json"))
    pieces = [note.with_name(note.name.removesuffix(".failed.json")) for note in notes]
    return {f"{piece.parent.name}/{piece.name}": why for piece in pieces if (why := read_failure(piece))}
