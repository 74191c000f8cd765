"""Options that several commands share: which data is meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from ctlpp.files import UserError

DATA = "The data"

Variant = Annotated[
    str,
    typer.Argument(
        metavar="VARIANT", help="CTL, A, R, S, or the path of a TOML file with a graph of your own."
    ),
]
Symbols = Annotated[int, typer.Option(help="Number of symbols.", rich_help_panel=DATA)]
Functions = Annotated[
    int | None, typer.Option(help="Number of functions. [default: 32]", rich_help_panel=DATA)
]
MaxLength = Annotated[int, typer.Option(help="Functions in an example, at most.", rich_help_panel=DATA)]
Train = Annotated[int, typer.Option(help="Training examples.", rich_help_panel=DATA)]
Iid = Annotated[int, typer.Option(help="IID test examples.", rich_help_panel=DATA)]
Ood = Annotated[
    int, typer.Option(help="OOD test examples; sampled diagnostic splits have as many.", rich_help_panel=DATA)
]
Seed = Annotated[int, typer.Option(help="Fixes functions and examples, bit for bit.", rich_help_panel=DATA)]
Protocol = Annotated[
    Literal["paper", "released"],
    typer.Option(help="What the paper says, or what the authors' code does.", rich_help_panel=DATA),
]
Order = Annotated[
    Literal["right-to-left", "left-to-right"],
    typer.Option(
        help="How examples are written: `d a b 3` or `3 b a d` for d(a(b(3))).", rich_help_panel=DATA
    ),
]
SharedFunctions = Annotated[
    int | None,
    typer.Option(help="S only: functions in the shared group o. [default: 8]", rich_help_panel=DATA),
]
SharedSymbols = Annotated[
    int | None,
    typer.Option(
        help="S only: symbols that both paths may pass to a shared function. [default: 4]",
        rich_help_panel=DATA,
    ),
]
OodMaxLength = Annotated[
    int | None,
    typer.Option(
        help="CTL only: functions in an OOD example, at most. [default: max length + 4]", rich_help_panel=DATA
    ),
]
Fill = Annotated[
    float,
    typer.Option(
        help="Share of the existing examples of a length ≥ 2 that train and iid may use.",
        rich_help_panel=DATA,
    ),
]
Weighting = Annotated[
    Literal["uniform", "sequential"] | None,
    typer.Option(
        help="Draw uniformly among distinct examples, or path by path. [default: sequential for S, else uniform]",
        rich_help_panel=DATA,
    ),
]
DistinctSequences = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Draw the examples of a length in train and iid from at most so many function sequences, each on several "
        "start symbols; n/7: from one to every 7 examples. [default: no limit]",
        rich_help_panel=DATA,
    ),
]


def chosen(context: typer.Context, options: Iterable[str]) -> list[str]:
    """Those of the options that stand on the command line."""
    return [
        name for name in options if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]


def named_as_options(error: UserError, options: Iterable[str]) -> UserError:
    """The same complaint as it stands on the command line.

    >>> named_as_options(UserError("max_length 5 is odd"), ["max_length"])
    UserError('--max-length 5 is odd')
    >>> named_as_options(UserError("unknown device 'tpu': choose from cpu, cuda"), ["device"])
    UserError('--device tpu: choose from cpu, cuda')
    >>> named_as_options(UserError("ood_max_length 4 must be above max_length 6"), ["max_length", "ood_max_length"])
    UserError('--ood-max-length 4 must be above --max-length 6')
    """
    message = error.on_command_line()
    found = re.match(rf"(?:unknown )?({'|'.join(options)}) (?!graph)(?:'([^'\s]+)'(?=:))?", message)
    if not found:
        return error
    names = [name for name in options if "_" in name]  # further on, `train` may be just a word
    rest = re.sub(
        r"\w+(?= \d)", lambda word: _option(word[0]) if word[0] in names else word[0], message[found.end() :]
    )
    return UserError(f"{_option(found[1])} {found[2] or ''}{rest}")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


@contextmanager
def naming(*options: str) -> Iterator[None]:
    """Complain about these in the words of the command line; a bug of ours stays as it is."""
    try:
        yield
    except UserError as error:
        raise named_as_options(error, options) from error
