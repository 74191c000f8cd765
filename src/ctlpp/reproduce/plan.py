"""Plans are lists of runs: the paper's experiments, two of our own that have ended, and the demo; their cost.

Example:
    >>> for run in plan("table1", only=["ndr/R"]):
    ...     print(run.name, len(run.seeds), "seeds", run.steps, "steps")
    ndr-R-released 25 seeds 80000 steps
    ndr-R-paper 25 seeds 80000 steps
    >>> len(plan("staged"))
    60
    >>> (run,) = plan("table1", only=["ndr-R-released"])
    >>> round(seconds(run, len(run.seeds), "cuda") / 60)  # 25 seeds on an H200
    15
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from ctlpp.benchmark.variants import PROTOCOLS
from ctlpp.files import UserError
from ctlpp.training.recipe import RECIPES, Recipe, recipe_for

Scale = Literal["full", "quick"]
Options = tuple[tuple[str, Any], ...]  # keyword arguments, hashable

EXPERIMENTS = ("table1", "staged", "similarity", "repeats", "tables")
ENDED = {"repeats", "tables"}  # of full size only; what has run is shown, nothing more is trained
REPEATS = "distinct_sequences"  # how the data of `repeats` were limited; they are no longer made
CHECKPOINTS: dict[str, Any] = {"checkpoint_every": 0, "checkpoint_minutes": 0.75}  # what a kill may cost


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """Seeds of one model on one dataset with one recipe."""

    name: str  # its folder
    model: str
    variant: str
    seeds: tuple[int, ...]
    data: Options = ()  # of `ctlpp.generate`, besides the variant
    preset: str = "released"
    sizes: Options = ()  # of the model, where they are not the preset's
    changes: Options = ()  # to the preset's recipe
    experiments: tuple[str, ...] = ()  # the parts of the paper that ask for it

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return recipe_for(self.model, self.preset, self.variant, **{**CHECKPOINTS, **dict(self.changes)})

    @property
    def steps(self) -> int:
        """Of its recipe."""
        return self.recipe.steps

    @property
    def options(self) -> dict[str, Any]:
        """Of its data."""
        return dict(self.data)

    @property
    def protocol(self) -> str:
        """Of its data."""
        return str(self.options.get("protocol", PROTOCOLS[0]))

    @property
    def repeated(self) -> bool:
        """Whether function sequences repeat in its data, as in the authors'."""
        return REPEATS in self.options

    @property
    def ended(self) -> bool:
        """Whether nothing of it is trained any more."""
        return bool(self.experiments) and {*self.experiments} <= ENDED

    def without(self, *options: str) -> PlannedRun:
        """The run of the paper's plan that lacks these options of the data."""
        data = tuple(pair for pair in self.data if pair[0] not in options)
        return replace(self, data=data, name=_name(self.model, self.variant, dict(data), self.preset))


def _name(model: str, variant: str, data: Mapping[str, Any], preset: str) -> str:
    """`ndr-R-released`, `ndr-S-released-o16-s6`, `ndr-R-released-seed3`, `lstm-A-released-repeats-quick`."""
    marks = {"shared_functions": "o", "shared_symbols": "s", "seed": "seed"}
    parts = [model, variant, data["protocol"]]
    parts += [f"{mark}{data[key]}" for key, mark in marks.items() if key in data]
    parts += ["repeats"] if REPEATS in data else []
    parts += {"released": [], "paper": ["paper-preset"]}.get(preset, [preset])
    return "-".join(parts)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large everything is at a scale; the structure of the plan is the same at both."""

    preset: str
    seeds: int  # of a run of table1
    transformers: int  # as many Transformers, for some never learn
    few: int  # seeds of a cell of the S grid
    shared_functions: tuple[int, ...]  # the S grid
    shared_symbols: tuple[int, ...]
    data: Options = ()  # of A and R
    staged: Options = ()  # of S
    steps: Mapping[str, int] = field(default_factory=dict)  # by model or MODEL/VARIANT; else the preset's

    def changes(self, model: str, variant: str) -> Options:
        """What is not as in the preset: fewer steps, and still five evaluations."""
        steps = self.steps.get(f"{model}/{variant}", self.steps.get(model))
        return () if steps is None else (("steps", steps), ("eval_every", -(-steps // 5)))


FULL = Size(
    preset="released",
    seeds=25,
    transformers=50,
    few=5,
    shared_functions=(4, 8, 12, 16),
    shared_symbols=(2, 3, 4, 5, 6),
)
_SMALL = {"symbols": 3, "functions": 6, "max_length": 5, "train": 1_500, "iid": 200, "ood": 400, "fill": 0.9}
_SMALL_S = _SMALL | {"symbols": 4, "functions": 16, "max_length": 4, "train": 2_200, "ood": 200}
# On A and R the smallest data we found that an NDR learns in so few steps, whatever the protocol.
QUICK = Size(
    preset="quick",
    seeds=2,
    transformers=2,
    few=2,
    shared_functions=(4, 8),
    shared_symbols=(3,),
    data=tuple(_SMALL.items()),
    staged=tuple(_SMALL_S.items()),
    steps={"ndr": 800, "ndr/S": 100, "transformer": 100, "lstm": 600},
)
SIZES: dict[str, Size] = {"full": FULL, "quick": QUICK}

DEMO_DATA = _SMALL | {"protocol": "paper", "symbols": 4, "functions": 8, "max_length": 4, "train": 2_200}
DEMO_MODELS = ("ndr", "transformer", "lstm")  # the longest first
DEMO_SEEDS = 8


def demo_plan(seeds: int = DEMO_SEEDS, steps: int | None = None) -> list[PlannedRun]:
    """The paper's phenomenon in a few minutes on two cores; docs/training.md explains its size."""
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
    scale: Scale = "full",
    *,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] = (),
    protocol: str | None = None,
    preset: str | None = None,
) -> list[PlannedRun]:
    """The runs of an experiment, or of all, in the order in which they are to be trained.

    First A and R, model by model (Bi-LSTM, NDR, Transformer): the released protocol, the same with repeated
    sequences (nearest to the authors' data), the protocol `paper`. Then S, then other function tables.

    seeds, protocol, preset: in place of the planned ones. only: `MODEL/VARIANT`, or names of runs.
    """
    for argument, value, choices in (
        ("experiment", what, (*EXPERIMENTS, "all")),
        ("‹scale›", scale, get_args(Scale)),
        ("‹protocol›", protocol, PROTOCOLS),
        ("‹preset›", preset, tuple(RECIPES)),
    ):
        if value is not None and value not in choices:
            raise UserError(f"{argument} {value}: choose from {', '.join(choices)}")
    if scale == "quick" and preset not in (None, "quick"):
        raise UserError(f"‹preset› {preset} is for the scale full: a miniature has its own, quick")
    runs: dict[str, PlannedRun] = {}
    for run in _every(SIZES[scale], protocol, preset):
        if what in ("all", *run.experiments):
            before = runs.get(run.name, run)
            asked = tuple(dict.fromkeys((*before.experiments, *run.experiments)))
            both = tuple(sorted({*before.seeds, *run.seeds})) if seeds is None else tuple(seeds)
            runs[run.name] = replace(before, experiments=asked, seeds=both)
    short = {name: f"{run.model}/{run.variant}" for name, run in runs.items()}
    for word in only:
        if word not in (*short, *short.values()):
            listed = ", ".join(dict.fromkeys(short.values()))
            raise UserError(f"‹only› {word}: {what} has {listed}; or give the name of a run (see ‹plan›)")
    return [run for name, run in runs.items() if not only or {name, short[name]} & {*only}]


def _every(size: Size, protocol: str | None, preset: str | None) -> Iterator[PlannedRun]:
    """The whole plan; a run that several experiments ask for comes several times."""
    models = {"lstm": size.seeds, "ndr": size.seeds, "transformer": size.transformers}
    ours = protocol or "released"  # the protocol behind the published numbers
    both = (protocol,) if protocol else ("released", "paper")
    repeated = {REPEATS: "n/7"}  # one function sequence to every 7 examples of a length

    def run(experiment: str, model: str, variant: str, protocol: str, seeds: int, **more: Any) -> PlannedRun:
        small = size.staged if variant == "S" else size.data
        data, chosen = {"protocol": protocol, **dict(small), **more}, preset or size.preset
        return PlannedRun(
            name=_name(model, variant, data, chosen),
            model=model,
            variant=variant,
            seeds=tuple(range(seeds)),
            data=tuple(data.items()),
            preset=chosen,
            changes=size.changes(model, variant),
            experiments=(experiment,),
        )

    for model, seeds in models.items():
        for used in both:
            for variant in ("A", "R"):
                yield run("table1", model, variant, used, seeds)
            for variant in ("A", "R") if used == ours and size is FULL else ():
                yield run("repeats", model, variant, used, seeds)  # beside which the next is seen
                yield run("repeats", model, variant, used, seeds, **repeated)
    for model in ("ndr", "lstm", "transformer"):
        for functions in size.shared_functions:
            for symbols in size.shared_symbols:
                grid = {"shared_functions": functions, "shared_symbols": symbols}
                yield run("staged", model, "S", ours, size.few, **grid)
    for variant in ("R", "A"):
        yield run("similarity", "ndr", variant, ours, size.seeds)
    for model, variant, data in (("ndr", "R", {}), ("lstm", "A", repeated)):  # else the latter learns little
        for table in range(5) if size is FULL else ():
            seed = {"seed": table} if table else {}  # function table 0 is that of all others
            yield run("tables", model, variant, ours, size.few, **seed, **data)


DEVICES = {"cuda": "one NVIDIA H200", "cpu": "two CPU cores"}  # where this was measured
START = {"cuda": 50.0, "cpu": 0.0}  # seconds, once: kernels are compiled

# Milliseconds of a step for each seed, by the number of seeds that are trained together.
_FULL: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {
        "lstm": {1: 0.2315, 2: 0.1386, 5: 0.0771, 10: 0.0573, 25: 0.0486, 50: 0.0448, 100: 0.0423},
        "transformer": {1: 1.281, 2: 0.712, 5: 0.366, 10: 0.255, 25: 0.214, 50: 0.199, 100: 0.189},
        "ndr": {1: 1.492, 2: 0.927, 5: 0.590, 10: 0.506, 25: 0.456, 50: 0.447, 100: 0.440},
    },
    "cpu": {"lstm": {1: 80.0}, "transformer": {1: 400.0}, "ndr": {1: 700.0}},
}
_QUICK: dict[str, dict[str, Mapping[int, float]]] = {
    "cuda": {"lstm": {1: 0.5, 50: 0.01}, "transformer": {1: 1.0, 50: 0.02}, "ndr": {1: 2.0, 100: 0.02}},
    "cpu": {"lstm": {1: 6.0, 4: 1.6}, "transformer": {1: 30.0, 2: 16.0}, "ndr": {1: 30.0, 2: 17.0}},
}
_SMALLER_BATCHES = {("lstm", "S"): 4}  # so many times smaller in the preset `released`; not measured
_AROUND = {"cuda": 10.0, "cpu": 3.0}  # seconds a piece: beginning, evaluations, analysis


def seconds(run: PlannedRun, seeds: int, device: str = "cuda", steps: int | None = None) -> float:
    """For training so many seeds of a planned run in one piece, with all that belongs to it."""
    if not seeds:
        return 0.0
    each = (_QUICK if run.preset == "quick" else _FULL)[device][run.model]
    smaller = _SMALLER_BATCHES.get((run.model, run.variant), 1) if run.preset == "released" else 1
    steps = run.steps if steps is None else steps
    return steps * step_time(each, seeds / smaller) / 1000 + _AROUND[device]


def step_time(each: Mapping[int, float], seeds: float) -> float:
    """Milliseconds of a step, from what was measured: straight lines between crowds, in proportion beyond.

    >>> step_time({1: 2.0, 10: 0.5}, 10), step_time({1: 2.0, 10: 0.5}, 4), step_time({1: 2.0, 10: 0.5}, 20)
    (5.0, 3.0, 10.0)
    """
    most = max(each)
    if seeds > most:
        return each[most] * seeds
    return float(np.interp(seeds, list(each), [crowd * time for crowd, time in each.items()]))
