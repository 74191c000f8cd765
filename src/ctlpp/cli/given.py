"""Options of the form NAME=VALUE, and the data a command is to work on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ctlpp.cli.options import named_as_options
from ctlpp.files import UserError

if TYPE_CHECKING:
    from ctlpp.benchmark.dataset import Dataset
    from ctlpp.benchmark.task import Task

T = TypeVar("T")


def parse_pairs(option: str, pairs: Iterable[str]) -> dict[str, Any]:
    """`["width=64", "shared=False"]` as keyword arguments."""
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"{option} {pair}: write it as NAME=VALUE")
        try:
            found[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[name] = text
    return found


def find_data(variant: str, settings: Mapping[str, Any], chosen: Sequence[str]) -> Dataset:
    """The dataset in a folder, or one drawn now. `chosen` are those of the settings that the user gave."""
    from ctlpp.benchmark.dataset import generate
    from ctlpp.storage.reading import load

    return _found(variant, chosen, load, lambda: generate(variant, **settings), settings)


def find_task(variant: str, settings: Mapping[str, Any], chosen: Sequence[str]) -> Task:
    """The task of a dataset folder, or of a variant."""
    from ctlpp.benchmark.settings import Settings, make_task_from
    from ctlpp.storage.reading import read_task

    make = partial(Settings, variant=variant, **settings)
    return _found(
        variant, chosen, lambda folder: read_task(folder)[0], lambda: make_task_from(make()), settings
    )


def _found(
    variant: str,
    chosen: Sequence[str],
    read: Callable[[Path], T],
    make: Callable[[], T],
    options: Iterable[str],
) -> T:
    """What a folder holds, if the variant is one, or what can be made of the variant."""
    if Path(variant).is_dir():
        if chosen:
            option = "--" + chosen[0].replace("_", "-")
            raise UserError(
                f"{option}: {variant} is a dataset folder and says that itself; leave the option out"
            )
        return read(Path(variant))
    try:
        return make()
    except ValueError as error:
        complaint = named_as_options(error, options)
        if str(complaint).startswith("unknown variant"):
            raise UserError(f"{complaint}, or a dataset folder") from error
        raise complaint from error
