"""The plan of the paper, of two experiments of our own and of earlier ones; and that of the demo.

Example:
    >>> for run in plan("table1", only=["ndr/R"]):
    ...     print(run.name, len(run.seeds), "seeds", run.steps, "steps")
    ndr-R-authors 25 seeds 80000 steps
    ndr-R-clean 25 seeds 80000 steps
    ndr-R-text 25 seeds 80000 steps
    >>> sum(not run.ended for run in plan("staged"))
    60
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.files import UserError
from ctlpp.models import DEFAULT_PRESET
from ctlpp.plans.planned import REPEATS, Options, PlannedRun, choose, name_run
from ctlpp.training.recipe import RECIPES
from ctlpp.words import OLD_PRESETS, OLD_PROTOCOLS

EXPERIMENTS = ("table1", "similarity", "data", "staged", "tables", "repeats")
# With `until="settled"`: every seed at IID 1.00, and no accuracy moves by more than this, in 20 evaluations.
SETTLED: Options = (("early_stop", 20), ("settled_accuracy", 0.995), ("settled_change", 0.05))
Data = dict[str, Any]  # options of `ctlpp.generate`


@dataclass(frozen=True)
class Block:
    """Runs that are planned together: each model on each variant with each of these data."""

    experiment: str
    seeds: Mapping[str, int]  # by model
    variants: str  # a letter each
    data: Sequence[Data] = ({},)  # the protocol is that of the scale, unless it is named here
    ended: bool = False  # what has run is shown, nothing more is trained


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The blocks of a plan in the order in which they are trained, and how large everything is."""

    preset: str
    protocol: str
    blocks: tuple[Block, ...]
    small: Mapping[str, Data] = field(default_factory=dict)  # by variant: what makes its data smaller
    steps: Mapping[str, int] = field(default_factory=dict)  # by model or MODEL/VARIANT; else the preset's

    def changes(self, model: str, variant: str) -> Options:
        """What is not as in the preset: fewer steps, and still five evaluations."""
        steps = self.steps.get(f"{model}/{variant}", self.steps.get(model))
        return () if steps is None else (("steps", steps), ("eval_every", -(-steps // 5)))


def _grid(functions: Sequence[int], symbols: Sequence[int]) -> list[Data]:
    """The cells of S."""
    return [{"shared_functions": many, "shared_symbols": few} for many, few in product(functions, symbols)]


# Which property of the data decides: from the authors' data down, from clean data up, one thing at a time.
# Twins are in the OOD split alone; whatever the run, the independent OOD split beside it shows what they do.
SWITCHES: tuple[Data, ...] = (
    {"protocol": "authors", "table": 0},
    {"protocol": "authors", "repeats": False},
    {"protocol": "authors", "nesting": False},
    {"protocol": "authors", "doubled_pairs": False},
    {"protocol": "clean", "table": "authors"},
    {"protocol": "clean", "repeats": True},
    {"protocol": "clean", "doubled_pairs": True},
)
OTHER_ORDER: Data = {"protocol": "authors", "table": "authors-py37"}  # of the authors' functions
AUTHORS: Data = {"protocol": "authors"}
CLEAN: Data = {"protocol": "clean"}
TEXT: Data = {"protocol": "text"}
REPEATED: Data = CLEAN | {REPEATS: "n/7"}  # one function sequence to every 7 examples of a length
# Data on which the published numbers are asked for.
CONDITIONS = {"authors": AUTHORS, "repeats": REPEATED, "clean": CLEAN, "text": TEXT}
_GRID = _grid((4, 8, 12, 16), (2, 3, 4, 5, 6))
_PAPER = {"lstm": 25, "ndr": 25, "transformer": 50}  # as many Transformers, for some never learn
_NEW = (
    Block("table1", {"lstm": 25, "ndr": 25}, "AR"),
    Block("similarity", {"ndr": 25}, "RA"),
    Block("data", {"lstm": 12}, "A", [OTHER_ORDER]),
    Block("data", {"lstm": 12, "ndr": 12}, "A", SWITCHES),
    Block("table1", {"transformer": 50}, "AR"),
    Block("staged", {"ndr": 5, "lstm": 5, "transformer": 3}, "S", _GRID),
    Block("tables", {"ndr": 8}, "RA", [{}, *({"table": table} for table in (1, 2, 3))]),
)
_EARLIER = (  # than the authors' data were known; function table 0 is that of all others
    Block("repeats", _PAPER, "AR", [REPEATED]),
    Block("table1", _PAPER, "AR", [CLEAN, TEXT]),
    Block("similarity", {"ndr": 25}, "RA", [CLEAN]),
    Block("staged", {"ndr": 5, "lstm": 5}, "S", [CLEAN | cell for cell in _GRID]),
    Block("tables", {"ndr": 5}, "R", [CLEAN, *(CLEAN | {"seed": table} for table in range(1, 5))]),
    Block("tables", {"lstm": 5}, "A", [REPEATED, *(CLEAN | {"seed": n} | REPEATED for n in range(1, 5))]),
)
_SMALL = {"symbols": 3, "functions": 6, "max_length": 5, "train": 1_500, "iid": 200, "ood": 400, "fill": 0.9}
_SMALL_S = _SMALL | {"symbols": 4, "functions": 16, "max_length": 4, "train": 2_200, "ood": 200}
SCALES = {
    "full": Scale(
        preset=DEFAULT_PRESET,
        protocol="authors",
        blocks=(*_NEW, *(replace(block, ended=True) for block in _EARLIER)),
    ),
    # On A and R the smallest data we found that an NDR learns in so few steps, whatever the protocol.
    "quick": Scale(
        preset="quick",
        protocol="clean",
        blocks=(
            Block("table1", {"lstm": 2, "ndr": 2, "transformer": 2}, "AR", [{}, TEXT]),
            Block("similarity", {"ndr": 2}, "RA"),
            Block("staged", {"ndr": 2, "lstm": 2, "transformer": 2}, "S", _grid((4, 8), (3,))),
        ),
        small={"A": _SMALL, "R": _SMALL, "S": _SMALL_S},
        steps={"ndr": 800, "ndr/S": 100, "transformer": 100, "lstm": 600},
    ),
}

DEMO_DATA = _SMALL | {"protocol": "text", "symbols": 4, "functions": 8, "max_length": 4, "train": 2_200}
DEMO_MODELS = ("ndr", "lstm")  # the longest first; a Transformer does not learn at this size
DEMO_SEEDS = 4


def demo_plan(seeds: int = DEMO_SEEDS, steps: int | None = None) -> list[PlannedRun]:
    """The paper's phenomenon in two minutes on two cores; docs/concepts has how its size was chosen."""
    return [
        PlannedRun(
            name=f"{model}-{variant}",
            model=model,
            variant=variant,
            seeds=tuple(range(seeds)),
            data=tuple(DEMO_DATA.items()),
            preset="quick",
            changes=() if steps is None else (("steps", steps), ("eval_every", steps)),
        )
        for model in DEMO_MODELS
        for variant in ("A", "R")
    ]


def plan(
    what: str = "all",
    scale: str = "full",
    *,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    protocol: str | None = None,
    preset: str | None = None,
    until: str | None = None,
) -> list[PlannedRun]:
    """The runs of an experiment, or of all, in the order in which they are to be trained.

    At full size also what has run earlier on other data than the authors': nothing of it is trained.

    seeds, protocol, preset: in place of the planned ones. only: `MODEL/VARIANT`, or names of runs.
    until: "settled" for runs of their own that stop when nothing changes any more.
    """
    protocol = protocol and OLD_PROTOCOLS.get(protocol, protocol)
    preset = preset and OLD_PRESETS.get(preset, preset)
    for argument, value, choices in (
        ("experiment", what, (*EXPERIMENTS, "all")),
        ("‹scale›", scale, tuple(SCALES)),
        ("‹protocol›", protocol, PROTOCOLS),
        ("‹preset›", preset, tuple(RECIPES)),
        ("‹until›", until, ("settled",)),
    ):
        if value is not None and value not in choices:
            raise UserError(f"{argument} {value}: choose from {', '.join(choices)}")
    if scale == "quick" and preset not in (None, "quick"):
        raise UserError(f"‹preset› {preset} is for the scale full: a miniature has its own, quick")
    runs: dict[str, PlannedRun] = {}
    for run in _expand(SCALES[scale], protocol, preset):
        if what in ("all", *run.experiments):
            before = runs.get(run.name, run)
            asked = tuple(dict.fromkeys((*before.experiments, *run.experiments)))
            both = tuple(sorted({*before.seeds, *run.seeds})) if seeds is None else tuple(seeds)
            runs[run.name] = replace(before, experiments=asked, seeds=both)
    chosen = choose(list(runs.values()), only, what)
    if not until:
        return chosen
    return [
        replace(run, name=f"{run.name}-until-settled", changes=run.changes + SETTLED)
        for run in chosen
        if not run.ended
    ]


def find_plan(names: Set[str]) -> dict[str, PlannedRun]:
    """The whole plan of the scale to which most of these runs belong, and those of them on other protocols.

    What has ended is part of it only if it is among the names.
    """
    plans = []
    for scale in SCALES:
        whole = {one.name: one for one in plan("all", scale)}
        others = [one for protocol in PROTOCOLS for one in plan("all", scale, protocol=protocol)]
        others += plan("all", scale, until="settled")
        plans.append(whole | {one.name: one for one in others if one.name in names - whole.keys()})
    best = max(plans, key=lambda one: len(one.keys() & names))
    return {name: one for name, one in best.items() if name in names or not one.ended}


def _expand(scale: Scale, protocol: str | None, preset: str | None) -> Iterator[PlannedRun]:
    """The runs of all blocks; one that several blocks ask for comes several times."""
    for block in scale.blocks:
        for model, variant, own in product(block.seeds, block.variants, block.data):
            if protocol and "protocol" in own:
                continue
            data = {"protocol": protocol or scale.protocol, **own}
            yield PlannedRun(
                name=name_run(model, variant, data, preset or scale.preset),
                model=model,
                variant=variant,
                seeds=tuple(range(block.seeds[model])),
                data=tuple(data.items()),
                small=tuple(scale.small.get(variant, {}).items()),
                preset=preset or scale.preset,
                changes=scale.changes(model, variant),
                experiments=(block.experiment,),
                ended=block.ended,
            )
