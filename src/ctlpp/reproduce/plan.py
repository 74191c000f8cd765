"""What is to be trained: the paper's experiments as one list of cells, and two of our own that explain differences.

Example:
    >>> for cell in plan("table1", only=["ndr/R"]):
    ...     print(cell.name, len(cell.seeds), "seeds", cell.steps, "steps")
    ndr-R-released 25 seeds 80000 steps
    ndr-R-paper 25 seeds 80000 steps
    >>> len(plan("staged"))
    60
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ctlpp.benchmark.sequences import RELEASED, Limit
from ctlpp.benchmark.task import PROTOCOLS
from ctlpp.files import UserError
from ctlpp.training.recipe import RECIPES, recipe_for

Scale = Literal["full", "quick"]
Options = tuple[tuple[str, Any], ...]  # of `ctlpp.generate`, beyond variant and protocol

EXPERIMENTS = {
    "table1": "accuracy of three models on A and R, under both protocols",
    "staged": "the grid of S: shared functions by shared symbols",
    "similarity": "what a successful and a failed NDR make of the same symbols",
    "repeats": "the same with as few distinct function sequences as the released generator draws",
    "tables": "how much the functions themselves (the data seed) matter",
}
WORDS = (*EXPERIMENTS, "all")


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One cell: seeds of a model on one dataset."""

    experiments: tuple[str, ...]  # the parts of the plan that ask for it
    model: str
    variant: str
    protocol: str
    seeds: tuple[int, ...]
    steps: int
    preset: str = "released"
    data: Options = ()

    @property
    def options(self) -> dict[str, Any]:
        """What `ctlpp.generate` is told besides the variant."""
        return {"protocol": self.protocol, **dict(self.data)}

    @property
    def repeated(self) -> bool:
        """Whether function sequences repeat in its data, as in the authors'."""
        return "distinct_sequences" in dict(self.data)

    @property
    def name(self) -> str:
        """Its folder: `ndr-R-released`, `ndr-S-released-o16-s6`, `ndr-R-released-seed3`, `lstm-A-released-repeats`."""
        given = dict(self.data)
        parts = [self.model, self.variant, self.protocol]
        parts += [f"{mark}{given[key]}" for key, mark in _MARKS.items() if key in given]
        parts += ["repeats"] if self.repeated else []
        parts += {"released": [], "paper": ["paper-preset"]}.get(self.preset, [self.preset])
        return "-".join(parts)

    @property
    def words(self) -> set[str]:
        """What `only` may call it."""
        return {f"{self.model}/{self.variant}", self.name}

    @property
    def title(self) -> str:
        """In words: `ndr on S, released, 16 shared functions, 6 shared symbols`."""
        given = dict(self.data)
        parts = [f"{self.model} on {self.variant}", self.protocol]
        parts += [
            f"{given[key]} {key.replace('_', ' ')}"
            for key in ("shared_functions", "shared_symbols")
            if key in given
        ]
        parts += [f"data seed {given['seed']}"] if "seed" in given else []
        parts += ["repeated sequences"] if self.repeated else []
        parts += [f"preset {self.preset}"] if self.preset != "released" else []
        return ", ".join(parts)


_MARKS = {"shared_functions": "o", "shared_symbols": "s", "seed": "seed"}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is at a scale; the structure of the plan is the same at both."""

    preset: str
    seeds: int  # of a cell of table1
    transformers: int  # as many Transformers, for some never learn
    few: int  # seeds of a cell of the S grid, and of each function table
    shared_functions: tuple[int, ...]  # the S grid
    shared_symbols: tuple[int, ...]
    tables: int  # function tables (data seeds)
    sequences: Limit  # distinct ones of a length in `repeats`
    data: Options = ()  # of A and R
    staged: Options = ()  # of S
    steps: Mapping[str, int] = field(default_factory=dict)  # by model or MODEL/VARIANT; else the preset's

    def steps_of(self, model: str, variant: str) -> int | None:
        """Those that are not the preset's."""
        return self.steps.get(f"{model}/{variant}", self.steps.get(model))


FULL = Size(
    preset="released",
    seeds=25,
    transformers=50,
    few=5,
    shared_functions=(4, 8, 12, 16),
    shared_symbols=(2, 3, 4, 5, 6),
    tables=5,
    sequences=RELEASED,
)
_SMALL = {"symbols": 3, "functions": 6, "max_length": 5, "train": 1_500, "iid": 200, "ood": 400, "fill": 0.9}
_SMALL_S = _SMALL | {"symbols": 4, "functions": 16, "max_length": 4, "train": 2_200, "ood": 200}
QUICK = (
    Size(  # on A and R the smallest data we found that an NDR learns in so few steps, whatever the protocol
        preset="quick",
        seeds=2,
        transformers=2,
        few=2,
        shared_functions=(4, 8),
        shared_symbols=(3,),
        tables=2,
        sequences="n/3",
        data=tuple(_SMALL.items()),
        staged=tuple(_SMALL_S.items()),
        steps={"ndr": 800, "ndr/S": 100, "transformer": 100, "lstm": 600},
    )
)
SIZES: dict[str, Size] = {"full": FULL, "quick": QUICK}


def plan(
    what: str = "all",
    scale: Scale = "full",
    *,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    protocol: str | None = None,
    preset: str | None = None,
) -> list[Planned]:
    """The cells of an experiment, or of all, in the order in which they are to be run.

    First A and R, model by model (Bi-LSTM, NDR, Transformer): the released protocol, the same with repeated sequences,
    which is nearest to the authors' data, then the protocol `paper`. Then the grid of S, then other function tables.

    seeds: those of every cell, in place of the planned ones. only: cells of these `MODEL/VARIANT`, or of these names.
    protocol: in place of the planned ones (both for table1, else `released`). preset: hyper-parameters, likewise.
    """
    _check(what, scale, protocol, preset)
    cells: dict[str, Planned] = {}
    every = list(_every(SIZES[scale], protocol, preset))
    for cell in every:
        if what not in ("all", *cell.experiments):
            continue
        before = cells.get(cell.name, cell)
        asked = tuple(dict.fromkeys((*before.experiments, *cell.experiments)))
        both = tuple(sorted({*before.seeds, *cell.seeds}))
        cells[cell.name] = replace(before, experiments=asked, seeds=both if seeds is None else tuple(seeds))
    _check_only(only, what, every)
    return [cell for cell in cells.values() if not only or cell.words & {*only}]


def _every(size: Size, protocol: str | None, preset: str | None) -> Iterator[Planned]:
    """The whole plan; a cell that several experiments ask for comes several times."""
    models = {"lstm": size.seeds, "ndr": size.seeds, "transformer": size.transformers}
    ours = (protocol,) if protocol else ("released",)  # the protocol behind the published numbers
    both = (protocol,) if protocol else ("released", "paper")

    def cell(experiment: str, model: str, variant: str, protocol: str, seeds: int, **data: Any) -> Planned:
        chosen = preset or size.preset
        small = size.staged if variant == "S" else size.data
        return Planned(
            experiments=(experiment,),
            model=model,
            variant=variant,
            protocol=protocol,
            seeds=tuple(range(seeds)),
            steps=size.steps_of(model, variant) or recipe_for(model, chosen, variant).steps,
            preset=chosen,
            data=(*small, *data.items()),
        )

    for model, seeds in models.items():
        for used in both:
            for variant in ("A", "R"):
                yield cell("table1", model, variant, used, seeds)
            for variant in ("A", "R") if used in ours else ():
                yield cell("repeats", model, variant, used, seeds)  # beside which the next is seen
                yield cell("repeats", model, variant, used, seeds, distinct_sequences=size.sequences)
    for model in ("ndr", "lstm", "transformer"):
        for functions in size.shared_functions:
            for symbols in size.shared_symbols:
                for used in ours:
                    grid = {"shared_functions": functions, "shared_symbols": symbols}
                    yield cell("staged", model, "S", used, size.few, **grid)
    for used in ours:
        for variant in ("R", "A"):
            yield cell("similarity", "ndr", variant, used, size.seeds)
        learned = {"distinct_sequences": size.sequences}  # without repeats no Bi-LSTM on A learns its data
        for model, variant, data in (("ndr", "R", {}), ("lstm", "A", learned)):
            yield cell(
                "tables", model, variant, used, size.few, **data
            )  # function table 0 is that of all others
            for table in range(1, size.tables):
                yield cell("tables", model, variant, used, size.few, seed=table, **data)


def _check(what: str, scale: str, protocol: str | None, preset: str | None) -> None:
    for option, value, choices in (
        ("experiment", what, WORDS),
        ("scale", scale, get_args(Scale)),
        ("protocol", protocol, PROTOCOLS),
        ("preset", preset, tuple(RECIPES)),
    ):
        if value is not None and value not in choices:
            raise UserError(f"unknown {option} {value!r}: choose from {', '.join(choices)}")
    if scale == "quick" and preset not in (None, "quick"):
        raise UserError(f"--preset {preset} is for --scale full: a miniature has its own, quick")


def _check_only(only: Sequence[str], what: str, every: Sequence[Planned]) -> None:
    """Every word must mean a cell of what is asked for."""
    cells = [cell for cell in every if what in ("all", *cell.experiments)]
    for word in only:
        if any(word in cell.words for cell in cells):
            continue
        elsewhere = dict.fromkeys(name for cell in every if word in cell.words for name in cell.experiments)
        of = f" is of {', '.join(elsewhere)}, not of {what}" if elsewhere else ""
        short = dict.fromkeys(f"{cell.model}/{cell.variant}" for cell in cells)
        raise UserError(
            f"--only {word}{of}: choose from {', '.join(short)}, or the name of a cell (see --plan)"
        )
