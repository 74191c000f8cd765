"""Options that several commands share: which data, and which seeds.

Example:
    >>> parse_seeds("3"), parse_seeds("3,7,9"), parse_seeds("25-27"), parse_seeds("7-7"), parse_seeds("0-2,9")
    ([0, 1, 2], [3, 7, 9], [25, 26, 27], [7], [0, 1, 2, 9])
    >>> name_seeds([0, 1, 2, 9])
    '0-2,9'
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, Literal

import typer

from ctlpp.files import UserError

_Weighting = Literal["uniform", "sequential"]
DATA: dict[str, tuple[Any, Any, str]] = {  # name: type, default, help
    "symbols": (int, 8, "Number of symbols."),
    "functions": (int | None, None, "Number of functions. [default: 32]"),
    "max_length": (int, 6, "Functions in an example, at most."),
    "train": (int, 300_000, "Training examples."),
    "iid": (int, 1_000, "IID test examples."),
    "ood": (int, 1_000, "OOD test examples; sampled diagnostic splits have as many."),
    "seed": (int, 0, "Fixes functions and examples, bit for bit."),
    "protocol": (
        Literal["paper", "released", "authors"],
        "paper",
        "As the paper says, with the authors' rules, or as the authors' generator draws.",
    ),
    "table": (
        str | None,
        None,
        "Functions: authors, authors-py37, a number to draw them from, or a file. [default: the protocol's]",
    ),
    "workers": (int | None, None, "Protocol authors: processes of the generator. [default: 24]"),
    "repeats": (bool | None, None, "Every worker chooses the same functions. [default: protocol authors]"),
    "nesting": (bool | None, None, "So does every length. [default: protocol authors]"),
    "twins": (bool | None, None, "So does the OOD split. [default: protocol authors]"),
    "doubled_pairs": (bool | None, None, "Add all pairs to train once more. [default: protocol authors]"),
    "order": (
        Literal["right-to-left", "left-to-right"],
        "right-to-left",
        "How examples are written: `d a b 3` or `3 b a d` for d(a(b(3))).",
    ),
    "shared_functions": (int | None, None, "S only: functions in the shared group o. [default: 8]"),
    "shared_symbols": (
        int | None,
        None,
        "S only: symbols that both paths may pass to a shared function. [default: 4]",
    ),
    "ood_max_length": (
        int | None,
        None,
        "CTL only: functions in an OOD example, at most. [default: max length + 4]",
    ),
    "fill": (float, 0.5, "Share of the existing examples of a length ≥ 2 that train and iid may use."),
    "weighting": (
        _Weighting | None,
        None,
        "Draw uniformly among distinct examples, or path by path. [default: sequential for S, else uniform]",
    ),
}
TASK = ("symbols", "functions", "max_length", "seed", "shared_functions", "shared_symbols", "ood_max_length")


def data_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add these options of `DATA` to a command, which receives them as one argument, `data`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(context: typer.Context, **values: Any) -> None:
            data = DataOptions({name: values.pop(name) for name in names}, context)
            command(**values, data=data)

        own = inspect.signature(command, eval_str=True).parameters
        parameters = [inspect.Parameter("context", _KEYWORD, annotation=typer.Context)]
        parameters += [parameter.replace(kind=_KEYWORD) for name, parameter in own.items() if name != "data"]
        parameters += [_parameter(name, *DATA[name]) for name in names]
        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _parameter(name: str, kind: Any, default: Any, help: str) -> inspect.Parameter:
    option = typer.Option(help=help, rich_help_panel="The data")
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=Annotated[kind, option])


class DataOptions(dict[str, Any]):
    """The options of the data by name; `typed` has those that stand on the command line."""

    def __init__(self, values: Mapping[str, Any], context: typer.Context) -> None:
        super().__init__(values)
        sources = {name: context.get_parameter_source(name) for name in values}
        self.typed = [
            name for name, source in sources.items() if getattr(source, "name", "") == "COMMANDLINE"
        ]

    def check_unused(self, folder: str) -> None:
        """Refuse options that a dataset folder has answered already."""
        if self.typed:
            raise UserError(
                f"‹{self.typed[0]}›: {folder} is a dataset folder that has this already; leave it out"
            )


_MOST_SEEDS = 100_000  # in one run
_GREATEST_SEED = 2**32 - 1
_SEED_FORMS = "write 25 (that is 0 … 24), 3,7,9, 25-49 or 7-7"


def parse_seeds(text: str) -> list[int]:
    """A count, or numbers and ranges with commas between them."""
    if re.search(r"\d{1000}", text):  # Python does not read numbers that long
        raise UserError(f"‹seeds› {text}: seeds go up to {_GREATEST_SEED}")
    if text.isdecimal():
        return _seed_range(text, 0, int(text) - 1)
    seeds: list[int] = []
    for part in text.replace(" ", "").split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not found:
            raise UserError(f"‹seeds› {text}: {_SEED_FORMS}")
        seeds += _seed_range(text, int(found[1]), int(found[2] or found[1]))
    if len(set(seeds)) < len(seeds):
        twice = next(seed for i, seed in enumerate(seeds) if seed in seeds[:i])
        raise UserError(f"‹seeds› {text}: seed {twice} is given twice; give every seed once")
    return seeds


def _seed_range(text: str, first: int, last: int) -> list[int]:
    if last < first:
        problem = "at least one seed is needed" if text.isdecimal() else f"{first}-{last} runs backwards"
        raise UserError(f"‹seeds› {text}: {problem}; {_SEED_FORMS}")
    if last - first >= _MOST_SEEDS:
        raise UserError(f"‹seeds› {text}: at most {_MOST_SEEDS:,} in one run")
    if last > _GREATEST_SEED:
        raise UserError(f"‹seeds› {text}: seeds go up to {_GREATEST_SEED}")
    return list(range(first, last + 1))


def parse_seeds_of_run(text: str, have: Sequence[int]) -> list[int]:
    """As `parse_seeds`, for an existing run: a count beyond its seeds may have meant a single seed."""
    seeds = parse_seeds(text)
    missing = next((seed for seed in seeds if seed not in have), None)
    if text.isdecimal() and missing is not None:
        alone = f"; for one seed alone write {text}-{text}" if int(text) in have else ""
        raise UserError(
            f"‹seeds› {text} means {name_seeds(seeds)}, but this run has only {name_seeds(have)}{alone}"
        )
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


def parse_pairs(option: str, pairs: Iterable[str], taken: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`["width=64", "shared=False"]` as keyword arguments; `taken`: names that other options have set."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"‹{option}› {pair}: write it as NAME=VALUE")
        if name in found or name in (taken or {}):
            raise UserError(f"‹{option}› {pair}: {name} is given twice; leave one of them out")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found
